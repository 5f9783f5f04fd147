#include "decode/detail/json_tree.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "io/base/error.h"
#include "io/base/json.h"

namespace millrace::decode::detail {

// A sample may have duplicate keys: the last one wins, as in Python's json module, which WebDataset
// uses.
nlohmann::json json_tree(const io::Bytes& field) {
  return parse_json<nlohmann::json>(field.text(), "JSON field",
                                    {.depth = 64, .unique_keys = false});
}

const nlohmann::json& value_at(const nlohmann::json& document, std::string_view where) {
  if (where.empty()) return document;
  try {
    if (where.front() == '/') return document.at(nlohmann::json::json_pointer(std::string(where)));
    return document.at(std::string(where));
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kCorrupt, fmt::format("JSON without a value at \"{}\"", where));
  }
}

const nlohmann::json* find_value(const nlohmann::json& document, std::string_view where) {
  try {
    return &value_at(document, where);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace millrace::decode::detail
