// ShardReader: the samples of one shard. Consecutive members with the same key form one sample.
//
//   ShardReader reader(opener, "train-000000.tar");
//   for (Sample sample; reader.next(sample);) use(sample);
//
// A sample is returned complete or not at all. After an Error the reader has dropped the
// faulty sample. It can continue with the next one if can_continue() is true (a fault of one
// sample: a duplicate suffix, interleaved keys, a name that is not UTF-8); otherwise the rest
// of the shard is lost. A hard link to an earlier member of the shard is a field with that
// member's bytes. They are read again at the link, which standard input and pipes do not
// allow. Order: the shard's. Buffers: 256 KiB, one sample, 16 bytes per key; with hard links
// one more payload and 16 bytes per member. Threads: one at a time. Source:
// docs/webdataset.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/opener.h"
#include "wds/sample.h"
#include "wds/tar_reader.h"

namespace millrace::wds {

struct ShardIndex;

struct ShardOptions {
  TarOptions tar = {};
  /// Accepts interleaved keys (each run of members is a sample), and as TarOptions::lenient.
  bool lenient = false;
  /// Maps a member's name to the name to use. Default: unchanged.
  std::function<std::string(const std::string& name)> rename = {};
  /// Whether a (renamed) member is used. Default: all are.
  std::function<bool(const std::string& name)> select = {};
  /// Suffixes of the fields wanted; empty: all. Other fields are left out of the samples and their
  /// bytes are not checked; long ones are not even read if the source can skip (a local file; over
  /// HTTP from 8 MiB on, by a new request).
  std::vector<std::string> suffixes = {};
  /// Where to start: a sample's Sample::offset.
  std::uint64_t offset = 0;
  /// Bytes that will be read from there, as far as is known: OpenOptions::expected.
  std::uint64_t expected_bytes = 0;
  /// The shard's index. If set, every sample is checked against it (key; each member's offset, size
  /// and header; the CRC-32 of each field wanted), a missing end is detected, and damage costs only
  /// the samples it hits. A sample that arrived damaged over the network is fetched once more,
  /// unless that was in vain for the two before it; in a packed shard, which must then be read from
  /// its beginning, only the first. Requires: neither rename nor select.
  std::shared_ptr<const ShardIndex> index = {};
  /// With an index: returns the samples as it lists them, with key, url, offset and size
  /// (Sample::passed_bytes) but without fields, and never opens the shard.
  bool listed = false;
  /// Samples to read from `offset` on, including damaged ones; 0: all. Requires: an index.
  std::uint64_t max_samples = 0;
  std::stop_token stop = {};
};

class ShardReader {
 public:
  /// Opens `url`. Lifetime: `opener` must outlive the reader, which may open the shard again.
  /// Throws: as opening.
  ShardReader(const io::Opener& opener, const std::string& url, const ShardOptions& options = {});
  ShardReader(const io::Opener&& opener, const std::string& url,
              const ShardOptions& options = {}) = delete;
  ~ShardReader();
  ShardReader(ShardReader&&) noexcept;
  ShardReader& operator=(ShardReader&&) noexcept;

  /// Fills `sample` with the next one and returns true; false at the shard's true end.
  /// Requires: after an Error, can_continue(). Throws: Corrupt, Truncated, Unsupported or
  /// Exhausted for faults in the data, with url, key, member and offset; as the source;
  /// std::bad_alloc.
  bool next(Sample& sample);
  /// Samples that arrived damaged over the network and were intact when fetched again.
  std::uint64_t refetched() const;
  /// After an Error: whether next() can continue with the next sample.
  bool can_continue() const;
  /// After an Error: how many samples it cost, as far as is known; exact with an index.
  std::uint64_t lost_samples() const;
  /// Sample::offset of the sample that next() would return, as far as is known: the end of the last
  /// one returned.
  std::uint64_t position() const;
  /// Whether all samples were returned, so that next() will return false.
  bool at_end() const;
  /// Whether the tar is compressed, as far as is known.
  bool compressed() const;
  /// The oddities of what was read so far.
  TarWarnings warnings() const;
  /// With tar.header_checksums: CRC-32 of the header blocks of each field of the last sample.
  const std::vector<std::uint32_t>& header_crcs() const;
  /// At the end: the offset of the tar's end marker.
  std::uint64_t end_offset() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::wds
