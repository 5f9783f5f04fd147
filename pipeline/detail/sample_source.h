// SampleSource: one stream of one epoch, as the pipeline reads it. wds::SampleStream in earnest;
// tests and the fake-data mode put others behind it.
//
// Threads: one at a time. A source that waits ends its wait with Cancelled when the pipeline stops.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "wds/sample_stream.h"

namespace millrace::pipeline::detail {

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  /// As wds::SampleStream::next().
  virtual bool next(wds::SampleBlock& block) = 0;
  /// Where the source stands after the last block.
  virtual wds::StreamPosition position() const = 0;
};

struct SourceRequest {
  int stream = 0;
  std::uint32_t epoch = 0;
  /// Where to start; null: at the beginning.
  const wds::StreamPosition* start = nullptr;
  std::stop_token stop = {};
};

using SourceFactory = std::function<std::unique_ptr<SampleSource>(const SourceRequest&)>;

}  // namespace millrace::pipeline::detail
