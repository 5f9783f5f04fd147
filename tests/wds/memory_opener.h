// MemoryOpener: shards in a map, so that a test needs no files. It is in the conformance suite of
// ByteSource, in memory_opener_test.cc.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "io/base/error.h"
#include "io/opener.h"

namespace millrace::testing {

/// Returns at most `step` bytes per read, so that every buffer boundary is exercised.
class MemorySource final : public io::ByteSource {
 public:
  MemorySource(std::string url, const std::string& data, io::OpenOptions options, std::size_t step,
               bool knows_size)
      : url_(std::move(url)),
        data_(data),
        position_(options.offset),
        stop_(std::move(options.stop)),
        step_(step),
        knows_size_(knows_size) {}

  std::size_t read(std::span<std::byte> into) override {
    if (stop_.stop_requested())
      throw Error(ErrorCode::kCancelled, "reading was stopped", {.url = url_});
    const std::size_t size = std::min({into.size(), data_.size() - position_, step_});
    std::copy_n(reinterpret_cast<const std::byte*>(data_.data()) + position_, size, into.data());
    position_ += size;
    return size;
  }
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> size() const override {
    if (!knows_size_) return {};
    return data_.size();
  }
  const std::string& url() const override { return url_; }

 private:
  std::string url_;
  const std::string& data_;  // owned by the opener
  std::size_t position_;
  std::stop_token stop_;
  std::size_t step_;
  bool knows_size_;
};

class MemoryOpener final : public io::Opener {
 public:
  std::map<std::string, std::string> files;
  std::size_t step = 1 << 20;
  bool knows_size = true;

  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options = {}) const override {
    const auto found = files.find(url);
    if (found == files.end()) throw Error(ErrorCode::kNotFound, "no such file", {.url = url});
    if (options.offset > found->second.size())
      throw Error(ErrorCode::kTruncated,
                  "the object ends at " + std::to_string(found->second.size()),
                  {.url = url, .offset = options.offset});
    return std::make_unique<MemorySource>(url, found->second, options, step, knows_size);
  }

  /// Of "s3:" urls alone.
  bool can_list(const std::string& url) const override { return url.starts_with("s3://"); }
  std::vector<io::ListedObject> list(const std::string& prefix,
                                     const io::ListOptions& options = {}) const override {
    std::vector<io::ListedObject> listed;
    for (const auto& [url, content] : files) {
      const bool below = url.find('/', prefix.size()) != std::string::npos;
      if (url.starts_with(prefix) && (options.recursive || !below))
        listed.push_back({.url = url, .bytes = content.size()});
    }
    return listed;
  }
};

}  // namespace millrace::testing
