// Compares what was read from a shard with its index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "wds/sample.h"
#include "wds/shard_index.h"

namespace millrace::wds::detail {

/// A member that was skipped: it is not in the sample, and its payload was not read.
struct PassedMember {
  std::size_t place = 0;  ///< position among the sample's members
  IndexedMember member = {};
};

/// The fault of what differs, of a member or of the sample itself.
Error unlike_index(const std::string& what, const std::string& member = {},
                   std::optional<std::uint64_t> offset = {});
/// Compares `sample` and the members of it that were skipped. Throws: Corrupt, naming the first
/// difference.
void check_sample(const IndexedSample& expected, const Sample& sample,
                  const std::vector<PassedMember>& passed,
                  const std::vector<std::uint32_t>& header_crcs);
/// Compares the shard's end. `stored_bytes` is unknown if data follows the end marker. Throws:
/// Truncated, Corrupt.
void check_end(const ShardIndex& index, std::uint64_t end,
               std::optional<std::uint64_t> stored_bytes);

}  // namespace millrace::wds::detail
