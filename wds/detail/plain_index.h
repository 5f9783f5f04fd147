// A fast parser for indexes exactly as write_index() writes them, 15 times as fast as building a
// JSON document: with tiny samples, parsing the index would otherwise dominate.
#pragma once

#include <optional>
#include <string_view>

#include "wds/shard_index.h"

namespace millrace::wds::detail {

/// The index in `text`, if it is byte for byte as write_index() would write it and its count is
/// right. Otherwise nullopt: the general parser then reads it or reports what is wrong.
std::optional<ShardIndex> parse_plain_index(std::string_view text,
                                            IndexParts parts = IndexParts::kAll);

}  // namespace millrace::wds::detail
