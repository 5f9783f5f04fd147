// Names of shards: numbered ones, from a pattern with one %d or %0Nd, and what a name says.
//
//   shard_name("out/train-%06d.tar", 12)   // "out/train-000012.tar"
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace millrace::wds {

/// `pattern` with its %d or %0Nd replaced by `index`; in a url %20 and other escapes in upper case
/// stay as they are. Throws: InvalidArgument if it has none, or several.
std::string shard_name(const std::string& pattern, std::uint64_t index);

/// What a pattern's file name has around its number.
struct AroundNumber {
  std::string before;
  std::string after;

  /// The digits of the number in `name`, a file's without its folder; empty if it is not one of the
  /// pattern's.
  std::string digits_in(const std::string& name) const;
};

/// Throws: as shard_name(), and InvalidArgument if the number is not in the file's name.
AroundNumber around_number(const std::string& pattern);

/// Whether `url` names a shard or its index, which do not change, unlike checkpoints, locks and
/// manifests: what a cache may keep.
bool is_shard_or_index(const std::string& url);

}  // namespace millrace::wds
