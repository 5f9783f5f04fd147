// ShardWriter: samples into numbered tar shards, each of which appears whole or not at all.
//
//   ShardWriter writer({.pattern = "out/train-%06d.tar", .maxcount = 10'000});
//   writer.write({.key = "000000", .fields = {{"jpg", image}, {"cls", label}}});
//   writer.finish();
//
// Members are ustar (pax only where ustar cannot hold a name), fields in byte order of their names,
// so the same samples give the same bytes. A writer that was not finish()ed keeps the shards that
// were complete and leaves nothing of the open one.
// Buffers: 1 MiB. Threads: one at a time. Source: WEBDATASET §9.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/byte_sink.h"
#include "io/bytes.h"

namespace millrace::wds {

struct WriterField {
  std::string suffix;
  io::Bytes data;
};

/// A sample to be written; the order of its fields does not matter.
struct WriterSample {
  std::string key;
  std::vector<WriterField> fields;
};

/// What became of one shard.
struct ShardSummary {
  std::string url;
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;  ///< of the tar file
};

struct ShardWriterOptions {
  /// The shards' path with one %d or %0Nd for their number.
  std::string pattern;
  /// Samples a shard, at most.
  std::uint64_t maxcount = 100'000;
  /// A shard that holds this many payload bytes is full.
  std::uint64_t maxsize = 3'000'000'000;
  std::uint64_t start_shard = 0;
  /// Seconds since 1970, for every member.
  std::int64_t mtime = 0;
  io::Replace replace = io::Replace::kNever;
  /// Called as each shard is complete and in its place.
  std::function<void(const ShardSummary& shard)> on_shard = {};
};

class ShardWriter {
 public:
  /// Throws: InvalidArgument (the pattern, a limit of 0), when the first shard's place cannot be
  /// written: Io.
  explicit ShardWriter(ShardWriterOptions options);
  ~ShardWriter();
  ShardWriter(ShardWriter&&) noexcept;
  ShardWriter& operator=(ShardWriter&&) noexcept;

  /// Throws: InvalidArgument (an empty key, no field, a suffix twice, a name that a reader would
  /// split differently), Io.
  void write(const WriterSample& sample);
  /// Completes the open shard and gives all shards written. Called once, last.
  std::vector<ShardSummary> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// `pattern` with its %d or %0Nd replaced by `index`. Throws: InvalidArgument.
std::string shard_name(const std::string& pattern, std::uint64_t index);

}  // namespace millrace::wds
