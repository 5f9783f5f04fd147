// DataIdentity: which samples a pipeline has and what fixes their order. A checkpoint keeps it,
// because a run that resumes from the checkpoint must have the same.
//
// A shard is known by its name without the folder (sets are moved), and by what can be found
// without reading it whole: its number of samples, from the index; its size; a checksum of its
// first 16 KiB; for a local shard also a checksum of its size and of three pieces of 16 KiB, at its
// beginning, middle and end, and the SHA-256 that an index next to it gives. This detects two
// shards swapped, and a set written anew under the same names; a byte changed elsewhere is detected
// by the index. Over the network one request is made per shard, 16 at a time, for at most 256
// shards spread over the set. ETag and Last-Modified are not used, because a copy of the same bytes
// has others.
//
//   const DataIdentity saved = DataIdentity::from_json(text), given = identify(options);
//   for (const std::string& line : option_differences(saved, given)) log.warn(line);
//
// Threads: as a value; identify() reads on threads of its own.
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
  std::string head = {};      ///< of the first 16 KiB, likewise
  std::string sha256 = {};    ///< the first 16 digits of the whole shard's, by a local index
};

struct DataIdentity {
  /// Name and value of each option that fixes the order of samples and batches.
  std::vector<std::pair<std::string, std::string>> options = {};
  std::vector<ShardIdentity> shards = {};

  /// Clears all but the name of the shard at `url`: for a damaged one, which is to be replaced.
  void forget(const std::string& url);
  /// Clears the options that only fix the order of the samples, not which they are.
  void forget_order();

  std::string to_json() const;
  /// Throws: Corrupt.
  static DataIdentity from_json(const std::string& text);
};

/// Shards that complete others are behind these in the list.
/// Of the pipeline that `options` describe, as given or as resolved; the numbers of samples are
/// `options.found.counts`. A shard that cannot be read has its name alone; after a network fault
/// other than NotFound no further shard is requested.
DataIdentity identify(PipelineOptions options);

/// Digests over the shards' identities, for positions. Where some are not on this machine, of what
/// the indexes say of them that counted their samples; not known where one has none.
Position::Contents digest_contents(PipelineOptions options);

/// Whose two identities are: "saved" and "given", or "in process 0" and "in process 1".
struct IdentityOwners {
  std::string one = "saved";
  std::string other = "given";
};

/// "streams: 16 saved, 32 given", "passes: none saved, 3 given": one line per option that differs.
/// One that another version did not save is no difference.
std::vector<std::string> option_differences(const DataIdentity& saved, const DataIdentity& given);
/// Describes the first place at which the two lists name different shards, or else their lengths;
/// empty when they name the same.
std::string list_difference(const DataIdentity& saved, const DataIdentity& given,
                            const IdentityOwners& owners = {});
/// Describes the first shard, of those with the same place and name, whose content differs; empty
/// when there is none. Only what both know is compared.
std::string content_difference(const DataIdentity& saved, const DataIdentity& given,
                               const IdentityOwners& owners = {});

}  // namespace millrace::pipeline
