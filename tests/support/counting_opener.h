// CountingOpener: a UrlOpener that counts what is opened, and the bytes that are read.
//
// Threads: every member may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "io/opener.h"

namespace millrace::testing {

class CountingOpener final : public io::Opener {
 public:
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options) const override {
    {
      const std::lock_guard lock(mutex_);
      ++opens_[url];
    }
    return std::make_unique<Source>(opener_.open(url, options), bytes_);
  }

  /// How often each url was opened.
  std::map<std::string, int> opens() const {
    const std::lock_guard lock(mutex_);
    return opens_;
  }
  /// What was read, without what was skipped.
  std::uint64_t bytes() const { return bytes_; }

 private:
  class Source final : public io::ByteSource {
   public:
    Source(std::unique_ptr<io::ByteSource> source, std::atomic<std::uint64_t>& bytes)
        : source_(std::move(source)), bytes_(bytes) {}
    std::size_t read(std::span<std::byte> into) override {
      const std::size_t got = source_->read(into);
      bytes_ += got;
      return got;
    }
    bool skip(std::uint64_t bytes) override { return source_->skip(bytes); }
    std::uint64_t position() const override { return source_->position(); }
    std::optional<std::uint64_t> size() const override { return source_->size(); }
    const std::string& url() const override { return source_->url(); }

   private:
    std::unique_ptr<io::ByteSource> source_;
    std::atomic<std::uint64_t>& bytes_;
  };

  io::UrlOpener opener_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, int> opens_;
  mutable std::atomic<std::uint64_t> bytes_ = 0;
};

}  // namespace millrace::testing
