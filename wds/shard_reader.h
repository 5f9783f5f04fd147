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
// Source: docs/webdataset.md.
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
  /// Suffixes of the fields that are wanted. Others are in no sample and their bytes are not looked
  /// at: long ones are not even read, where the source can skip (a local file; over HTTP from 8 MiB
  /// on, by a new request). Empty: all.
  std::vector<std::string> suffixes = {};
  /// Where to start: Sample::offset of some sample.
  std::uint64_t offset = 0;
  /// What the shard must hold: with it every sample is checked (key; each member's place, size and
  /// header; the CRC-32 of each field that is wanted), a missing end is found, and damage costs its
  /// own samples alone. A sample that came damaged over the network is asked for once more; in a
  /// packed shard, which is then read from its beginning, the first one alone. Requires: neither
  /// rename nor select.
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

  /// Fills `sample` with the next one and is true, or is false at the shard's true end. Requires:
  /// after an Error, can_continue(). Throws: Error with url, key, member, offset: Corrupt,
  /// Truncated, Unsupported, Exhausted for what the data is, and what the source throws;
  /// std::bad_alloc.
  bool next(Sample& sample);
  /// Samples that came damaged over the network, and whole when they were asked for once more.
  std::uint64_t refetched() const;
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
