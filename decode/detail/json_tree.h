// A field's JSON as a tree, for decoders of its values.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "io/bytes.h"

namespace millrace::decode::detail {

/// Throws: Corrupt if the field is not JSON, or is nested more than 64 deep.
nlohmann::json json_tree(const io::Bytes& field);

/// The value at `where` (decode/json.h); null if there is none.
const nlohmann::json* find_value(const nlohmann::json& document, std::string_view where);
/// Throws: Corrupt if there is none.
const nlohmann::json& value_at(const nlohmann::json& document, std::string_view where);

}  // namespace millrace::decode::detail
