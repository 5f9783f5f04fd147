// What was read of a shard, compared with what its index says.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "wds/sample.h"
#include "wds/shard_index.h"

namespace millrace::wds::detail {

/// A member that was skipped: the sample does not hold it, and its bytes were not looked at.
struct PassedMember {
  std::size_t place = 0;  ///< among the sample's members
  IndexedMember member = {};
};

/// Compares `sample`, and the members that were passed over in it. Throws: Corrupt, naming what
/// differs first.
void check_sample(const IndexedSample& expected, const Sample& sample,
                  const std::vector<PassedMember>& passed,
                  const std::vector<std::uint32_t>& header_crcs);
/// Throws: Truncated or Corrupt. `stored_bytes` is unknown where data follows the end marker.
void check_end(const ShardIndex& index, std::uint64_t end,
               std::optional<std::uint64_t> stored_bytes);

}  // namespace millrace::wds::detail
