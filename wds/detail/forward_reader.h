// ForwardReader: samples of one shard by their offsets, read forward from one to the next.
//
// Wide gaps, and offsets that lie behind, cost a new opening; of a packed shard everything in front
// of them is unpacked again.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/base/error.h"
#include "io/opener.h"
#include "wds/sample.h"
#include "wds/shard_reader.h"

namespace millrace::wds::detail {

class ForwardReader {
 public:
  /// `opener` is borrowed. Of `options`, the offset is set here.
  ForwardReader(std::string url, const io::Opener& opener, ShardOptions options);

  /// The sample that begins at `offset`. Throws: Corrupt if none does; as ShardReader::next() for
  /// it, or for what lies in front of it.
  Sample at(std::uint64_t offset);
  /// After an Error: whether what lies behind is out of reach too, as in a packed shard.
  bool is_broken() const { return broken_; }
  /// Samples that arrived damaged over the network and were intact when fetched again.
  std::uint64_t refetched() const { return refetched_ + (reader_ ? reader_->refetched() : 0); }
  /// That were read, unpacked.
  std::uint64_t bytes() const { return bytes_; }

 private:
  void open(std::uint64_t offset);
  void close();
  Sample find(std::uint64_t offset);
  bool next(Sample& sample, std::uint64_t offset);

  std::string url_;
  const io::Opener& opener_;
  ShardOptions options_;
  std::uint64_t wide_gap_;
  std::optional<ShardReader> reader_;
  std::optional<Error> passed_over_;  // the last fault of a single sample
  std::uint64_t bytes_ = 0;
  std::uint64_t refetched_ = 0;  // by earlier openings
  bool broken_ = false;
};

}  // namespace millrace::wds::detail
