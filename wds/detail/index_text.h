// An index as the text of its file, both ways.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wds/shard_index.h"

namespace millrace::wds::detail {

/// Throws: Corrupt.
ShardIndex parse_index(std::string_view text);
/// The number of samples, as the first bytes of an index have it; nothing where they do not.
std::optional<std::uint64_t> count_in_head(std::string_view head);
std::string index_text(const ShardIndex& index);

}  // namespace millrace::wds::detail
