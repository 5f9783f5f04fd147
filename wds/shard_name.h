// shard_name: names of numbered shards, from a pattern with one %d or %0Nd.
//
//   shard_name("out/train-%06d.tar", 12)   // "out/train-000012.tar"
#pragma once

#include <cstdint>
#include <string>

namespace millrace::wds {

/// `pattern` with its %d or %0Nd replaced by `index`. Throws: InvalidArgument if it has none.
std::string shard_name(const std::string& pattern, std::uint64_t index);

}  // namespace millrace::wds
