// FaultySource: bytes in memory as a ByteSource that fails as configured.
//
//   FaultySource source(tar, {.max_read = 7, .fail_at = 1024});
//
// FaultyOpener: an Opener of named objects in memory, each with its own faults, that counts opens.
// Without faults it behaves like any Opener: it is in the conformance suite in
// tests/io/byte_source_test.cc.
//
// Threads: as ByteSource and Opener.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "io/base/error.h"
#include "io/byte_source.h"
#include "io/opener.h"

namespace millrace::testing {

struct SourceFaults {
  /// No read returns more than this many bytes.
  std::size_t max_read = std::size_t{1} << 30;
  /// The read that would pass this offset throws `fail_code`.
  std::optional<std::uint64_t> fail_at = {};
  ErrorCode fail_code = ErrorCode::kIo;
  /// The object seems to end here, as with a source that does not know its size.
  std::optional<std::uint64_t> ends_at = {};
};

class FaultySource final : public io::ByteSource {
 public:
  explicit FaultySource(std::string content, SourceFaults faults = {}, io::OpenOptions options = {},
                        std::string url = "faulty.tar")
      : content_(std::move(content)),
        faults_(faults),
        position_(options.offset),
        stop_(std::move(options.stop)),
        url_(std::move(url)) {}

  std::size_t read(std::span<std::byte> into) override {
    if (stop_.stop_requested())
      throw Error(ErrorCode::kCancelled, "reading was stopped", {.url = url_});
    const std::uint64_t end = std::min<std::uint64_t>(content_.size(), stop_at());
    if (position_ >= end) {
      if (faults_.fail_at && position_ >= *faults_.fail_at) fail();
      return 0;
    }
    const auto count = static_cast<std::size_t>(
        std::min<std::uint64_t>({into.size(), faults_.max_read, end - position_}));
    const auto* from = reinterpret_cast<const std::byte*>(content_.data()) + position_;
    std::copy(from, from + count, into.begin());
    position_ += count;
    return count;
  }
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> size() const override {
    if (faults_.ends_at) return std::nullopt;
    return content_.size();
  }
  const std::string& url() const override { return url_; }

 private:
  std::uint64_t stop_at() const {
    return std::min(faults_.fail_at.value_or(~std::uint64_t{0}),
                    faults_.ends_at.value_or(~std::uint64_t{0}));
  }
  [[noreturn]] void fail() const {
    throw Error(faults_.fail_code, "a fault that the test asked for",
                {.url = url_, .offset = position_});
  }

  std::string content_;
  SourceFaults faults_;
  std::uint64_t position_;
  std::stop_token stop_;
  std::string url_;
};

class FaultyOpener final : public io::Opener {
 public:
  void add(const std::string& url, std::string content, SourceFaults faults = {}) {
    objects_[url] = {std::move(content), faults};
  }
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options = {}) const override {
    ++opens_;
    const auto found = objects_.find(url);
    if (found == objects_.end()) {
      throw Error(ErrorCode::kNotFound, "no such object", {.url = url});
    }
    const auto& [content, faults] = found->second;
    if (options.offset > content.size())
      throw Error(ErrorCode::kTruncated, "the object ends at " + std::to_string(content.size()),
                  {.url = url, .offset = options.offset});
    return std::make_unique<FaultySource>(content, faults, options, url);
  }
  int opens() const { return opens_; }

 private:
  std::map<std::string, std::pair<std::string, SourceFaults>> objects_;
  mutable std::atomic<int> opens_ = 0;
};

}  // namespace millrace::testing
