// ShardWriter: writes samples to numbered tar shards, each of which appears complete or not at all.
//
//   ShardWriter writer({.pattern = "out/train-%06d.tar", .maxcount = 10'000});
//   writer.write({.key = "000000", .fields = {{"jpg", image}, {"cls", label}}});
//   writer.finish();
//
// Members are ustar (pax only if ustar cannot hold a name), fields in byte order of their names, so
// the same samples give the same bytes. A writer that was not finish()ed leaves the completed
// shards and nothing of the open one. A shard's index (wds/shard_index.h) is computed while
// writing. On disk it is published before the shard, so no shard is without its index; an index
// without a shard is replaced. In a store it is put behind the shard, by the writer whose shard the
// store took. Two that may replace (Replace::kAtomically) and write one shard at once may leave
// one's shard with the other's index, which readers and `verify` notice: a store has no
// transactions.
//
// Threads of its own hash and write what write() hands over, and publish a full shard (fsync,
// index, rename) while the next one is filled: what they fail at is thrown by a later call, and by
// every one after it.
// Buffers: of the open shard and of the one that is being published 4 MiB, partly samples' own, and
// the index each. Threads: one at a time. Source: docs/webdataset.md, "Writing".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/byte_sink.h"
#include "io/bytes.h"
#include "wds/manifest.h"
#include "wds/shard_name.h"
#include "wds/writer_threads.h"

namespace millrace::io {
class Opener;
}

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
  std::string sha256 = {};  ///< of the tar file; empty without an index
};

struct ShardWriterOptions {
  /// The shards' path or url with one %d or %0Nd for their number.
  std::string pattern;
  /// Maximum number of samples per shard.
  std::uint64_t maxcount = 100'000;
  /// A shard that holds this many payload bytes or more is full.
  std::uint64_t maxsize = 3'000'000'000;
  std::uint64_t start_shard = 0;
  /// From one shard's number to the next: writers that share a set begin one apart, and each steps
  /// by how many they are. Above 1 maxcount alone ends a shard.
  std::uint64_t shard_step = 1;
  /// Modification time of every member, in seconds since 1970.
  std::int64_t mtime = 0;
  io::Replace replace = io::Replace::kNever;
  /// Writes each shard's index next to it.
  bool index = true;
  /// Where finish() writes the set's manifest (wds/manifest.h); empty: nowhere.
  std::string manifest = {};
  /// Manifest::pictures.
  StoredPictures pictures = {};
  /// Shards that an earlier run completed: numbering continues after them, and the manifest and
  /// finish()'s list begin with them.
  std::vector<ShardSummary> earlier = {};
  /// Writes what the pattern and the manifest name if they are urls; borrowed. Null: files alone.
  const io::Opener* opener = nullptr;
  /// Writers that are open together may share their threads; null: its own.
  std::shared_ptr<WriterThreads> threads = {};
  /// Is told what writing waits for when that takes more than two seconds, once a shard.
  Log log = {};
  /// Called by write() and finish() when a shard is complete and in place, in the order of shards.
  std::function<void(const ShardSummary& shard)> on_shard = {};
};

class ShardWriter {
 public:
  /// Opens the first shard. Throws: InvalidArgument (the pattern, a limit of 0), and as
  /// io::open_file_sink() or io::Opener::open_sink().
  explicit ShardWriter(ShardWriterOptions options);
  /// Waits until a full shard is published.
  ~ShardWriter();
  ShardWriter(ShardWriter&&) noexcept;
  ShardWriter& operator=(ShardWriter&&) noexcept;

  /// Throws: InvalidArgument (an empty key, one that the shard already has, no field, a duplicate
  /// suffix, a name that a reader would split differently; with shard_step above 1 a shard that
  /// maxsize would end), Exhausted (no thread), Io.
  void write(const WriterSample& sample);
  /// Completes the open shard and the manifest; returns all shards. Called once, last. Throws:
  /// Exhausted, Io.
  std::vector<ShardSummary> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::wds
