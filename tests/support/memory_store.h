// MemoryStore: an object store in memory under the scheme "mem", which lists, replaces and removes,
// and fails when it is told to.
//
//   MemoryStore store;
//   options.opener = store.opener();
//   store.before = [](const std::string& what, const std::string& url) { ... throw Error ... };
//
// Threads: any; `before` is set while nothing uses the store, and is called on the users' threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/opener.h"

namespace millrace::testing {

class MemoryStore {
 public:
  /// Called before "put", "get", "list" and "remove" with the url; what it throws is the fault.
  std::function<void(const std::string& what, const std::string& url)> before;

  std::shared_ptr<const io::Opener> opener() {
    return std::make_shared<io::UrlOpener>(io::UrlOpenerOptions{.stores = {store()}});
  }

  std::map<std::string, std::string> objects() const {
    const std::lock_guard lock(mutex_);
    return objects_;
  }
  void put(const std::string& url, std::string content) {
    const std::lock_guard lock(mutex_);
    objects_[url] = std::move(content);
  }
  void remove(const std::string& url) {
    const std::lock_guard lock(mutex_);
    objects_.erase(url);
  }

 private:
  class Source final : public io::ByteSource {
   public:
    Source(std::string url, std::string content, std::uint64_t offset)
        : url_(std::move(url)), content_(std::move(content)), position_(offset) {}
    std::size_t read(std::span<std::byte> into) override {
      const std::size_t size = std::min<std::size_t>(into.size(), content_.size() - position_);
      std::copy_n(reinterpret_cast<const std::byte*>(content_.data()) + position_, size,
                  into.data());
      position_ += size;
      return size;
    }
    std::uint64_t position() const override { return position_; }
    std::optional<std::uint64_t> size() const override { return content_.size(); }
    const std::string& url() const override { return url_; }

   private:
    std::string url_;
    std::string content_;
    std::uint64_t position_;
  };

  class Sink final : public io::ByteSink {
   public:
    Sink(MemoryStore& store, std::string url, bool replaces)
        : store_(store), url_(std::move(url)), replaces_(replaces) {}
    void write(std::span<const std::byte> data) override {
      content_.append(reinterpret_cast<const char*>(data.data()), data.size());
    }
    void finish() override {
      store_.fault("put", url_);
      const std::lock_guard lock(store_.mutex_);
      require(replaces_ || !store_.objects_.contains(url_),
              "object exists and may not be replaced");
      store_.objects_[url_] = content_;
    }
    std::uint64_t position() const override { return content_.size(); }

   private:
    MemoryStore& store_;
    std::string url_;
    bool replaces_;
    std::string content_;
  };

  void fault(const std::string& what, const std::string& url) const {
    if (before) before(what, url);
  }

  io::Store store() {
    return {.scheme = "mem",
            .open =
                [this](const std::string& url, const io::OpenOptions& options) {
                  fault("get", url);
                  const std::lock_guard lock(mutex_);
                  const auto found = objects_.find(url);
                  if (found == objects_.end())
                    throw Error(ErrorCode::kNotFound, "no such object", {.url = url});
                  return std::make_unique<Source>(url, found->second, options.offset);
                },
            .create =
                [this](const std::string& url, const io::FileSinkOptions& options,
                       const std::stop_token&) {
                  return std::make_unique<Sink>(*this, url,
                                                options.replace == io::Replace::kAtomically);
                },
            .list = [this](const std::string& prefix,
                           const io::ListOptions& options) { return list(prefix, options); },
            .remove =
                [this](const std::string& url, const std::stop_token&) {
                  fault("remove", url);
                  remove(url);
                }};
  }

  std::vector<io::ListedObject> list(const std::string& prefix,
                                     const io::ListOptions& options) const {
    fault("list", prefix);
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::uint64_t> found;
    for (const auto& [url, content] : objects_) {
      if (!url.starts_with(prefix)) continue;
      const std::size_t slash = url.find('/', prefix.size());
      if (options.recursive || slash == std::string::npos)
        found[url] = content.size();
      else
        found[url.substr(0, slash + 1)] = 0;
    }
    std::vector<io::ListedObject> listed;
    for (const auto& [url, bytes] : found) listed.push_back({.url = url, .bytes = bytes});
    return listed;
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::string> objects_;
};

}  // namespace millrace::testing
