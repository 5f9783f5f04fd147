// ShardReader: the samples of one shard. Consecutive members with one key are one sample.
//
//   ShardReader reader(opener, "train-000000.tar");
//   for (Sample sample; reader.next(sample);) use(sample);
//
// A sample is handed up whole or not at all. After an Error the reader has dropped the sample at
// fault; it goes on with the next one when can_continue() is true (a sample-level fault: a suffix
// twice, interleaved keys, a name that is no text); otherwise the rest of the shard is lost.
// A hard link to an earlier member of the shard is a field like any other, with that member's
// bytes: they are read anew where the link is met, which standard input and pipes do not allow.
// Order: the shard's. Buffers: 256 KiB, one sample, 16 bytes a key; with hard links one payload
// more and 16 bytes a member. Threads: one at a time.
// Source: WEBDATASET §1 to §4.
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
  /// Accepts interleaved keys (each run of members is a sample), and what TarOptions::lenient does.
  bool lenient = false;
  /// From a member's name to the name that counts. Default: unchanged.
  std::function<std::string(const std::string& name)> rename = {};
  /// Whether a (renamed) member is read. Default: all are.
  std::function<bool(const std::string& name)> select = {};
  /// Suffixes of the fields that are wanted; others are not held in memory, nor in the samples.
  /// Empty: all.
  std::vector<std::string> suffixes = {};
  /// Where to start: Sample::offset of some sample.
  std::uint64_t offset = 0;
  /// What the shard must hold: with it every sample is checked (key, place, sizes, CRC-32), a
  /// missing end is found, and damage costs its own samples alone. A sample that came damaged over
  /// the network is asked for once more (not in packed shards). Not with rename or select.
  std::shared_ptr<const ShardIndex> index = {};
  /// Samples to read from `offset` on, damaged ones included; 0 is all. Needs an index.
  std::uint64_t max_samples = 0;
  std::stop_token stop = {};
};

class ShardReader {
 public:
  /// Opens `url`. Lifetime: `opener` must outlive the reader, which opens the shard again for hard
  /// links. Throws: what opening throws.
  ShardReader(const io::Opener& opener, const std::string& url, const ShardOptions& options = {});
  ShardReader(const io::Opener&& opener, const std::string& url,
              const ShardOptions& options = {}) = delete;
  ~ShardReader();
  ShardReader(ShardReader&&) noexcept;
  ShardReader& operator=(ShardReader&&) noexcept;

  /// The next sample, or false at the shard's true end. Throws: Error with url, key, member,
  /// offset.
  bool next(Sample& sample);
  /// After an Error: whether next() can go on with the next sample.
  bool can_continue() const;
  /// After an Error: how many samples it cost, as far as is known. With an index that is exact.
  std::uint64_t lost_samples() const;
  /// Sample::offset of the sample that next() would give, as far as is known: the end of what was
  /// handed up.
  std::uint64_t position() const;
  /// Whether all samples were handed up, so that next() will be false.
  bool at_end() const;
  /// Whether the tar is packed, as far as is known.
  bool compressed() const;
  /// Of what was read so far.
  TarWarnings warnings() const;
  /// With tar.header_checksums: CRC-32 of each field's header blocks, of the last sample.
  const std::vector<std::uint32_t>& header_crcs() const;
  /// At the end: the offset of the tar's end marker.
  std::uint64_t end_offset() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::wds
