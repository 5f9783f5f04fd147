// Parsing and formatting of an index file's text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wds/shard_index.h"

namespace millrace::wds::detail {

/// Throws: Corrupt.
ShardIndex parse_index(std::string_view text, IndexParts parts = IndexParts::kAll);
/// From the first bytes of an index; nullopt if they do not say how many samples it has.
std::optional<IndexHead> head_of_index(std::string_view begin);
std::string index_text(const ShardIndex& index);

/// `text` of index_text() with its own CRC-32 as the last member, for what nothing else compares:
/// keys, and the places of samples that are listed without being read.
std::string sealed(std::string text);
/// Whether `text` ends in a CRC-32. Throws: Corrupt if it is not its own.
bool check_seal(std::string_view text);

}  // namespace millrace::wds::detail
