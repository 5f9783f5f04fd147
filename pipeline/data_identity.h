// DataIdentity: what a pipeline's samples are and in which order they come, for a checkpoint to
// know: a run that continues from it must have the same.
//
// Of a shard it holds the name without its folder (sets move), and as far as that is known without
// reading it whole: its samples, from its index; its size, and a checksum of its first 16 KiB; of a
// local one also a checksum of its size and of three pieces of 16 KiB, at its beginning, middle and
// end. Two shards that are swapped, or a set that was made anew under the same names, are noticed;
// a byte that changed elsewhere is the index's business. On the network a request a shard is made,
// 16 at a time, for 256 shards from all over the set at most. A server's own tags (ETag,
// Last-Modified) are not used: a copy of the same bytes has others.
//
//   const DataIdentity saved = DataIdentity::from_json(text), given = identify(options);
//   for (const std::string& line : option_differences(saved, given)) log.warn(line);
//
// Threads: as values; identify() reads on threads of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/options.h"

namespace millrace::pipeline {

struct ShardIdentity {
  std::string name = {};
  std::optional<std::uint64_t> samples = {};
  std::optional<std::uint64_t> bytes = {};
  std::string checksum = {};  ///< 16 hex digits; empty: unknown
  std::string head = {};      ///< the beginning's checksum, likewise
};

struct DataIdentity {
  /// Name and value of each option that fixes the order of samples and batches.
  std::vector<std::pair<std::string, std::string>> options = {};
  std::vector<ShardIdentity> shards = {};

  /// Forgets all but the name of the shard at `url`: it is damaged, and will be mended.
  void forget(const std::string& url);

  std::string to_json() const;
  /// Throws: Corrupt.
  static DataIdentity from_json(const std::string& text);
};

/// `options` as a pipeline takes them, or as it has resolved them. Shards that cannot be read have
/// their name alone; where the network fails, so have all that were not asked for before.
DataIdentity identify(PipelineOptions options);

/// "batch-size: 16 saved, 32 given", a line an option.
std::vector<std::string> option_differences(const DataIdentity& saved, const DataIdentity& given);
/// The first place where the two lists name another shard, or where one of them ends; empty when
/// they name the same.
std::string list_difference(const DataIdentity& saved, const DataIdentity& given);
/// The first shard, of those with the same place and name, that holds something else than it did;
/// empty when there is none. What one of the two does not know is no difference.
std::string content_difference(const DataIdentity& saved, const DataIdentity& given);

}  // namespace millrace::pipeline
