#include "io/component/component_json.h"

#include <nlohmann/json.hpp>

#include "io/base/json.h"

namespace millrace {
namespace {

using Kind = Written::Kind;
using Json = nlohmann::ordered_json;

constexpr JsonLimits kLimits = {.bytes = std::size_t{1} << 16, .depth = 16};

Json json_of(const Written& value) {
  Json out;
  switch (value.kind) {
    case Kind::kNone:
      break;
    case Kind::kBool:
      out = value.text == "true";
      break;
    case Kind::kNumber:
      out = parse_json<Json>(value.text, "a number");
      break;
    case Kind::kWord:
      out = value.text;
      break;
    case Kind::kInterval:
    case Kind::kList:
      out = Json::array();
      for (const Written& one : value.items) out.push_back(json_of(one));
      break;
    case Kind::kCall:
      out["name"] = value.text;
      for (const Written& one : value.items) out[one.name] = json_of(one);
  }
  return out;
}

Written written_of(const Json& value);

Written call_of(const Json& object) {
  Written out{.kind = Kind::kCall};
  for (const auto& [name, one] : object.items()) {
    if (name == "name" && one.is_string()) {
      out.text = one.get<std::string>();
      continue;
    }
    out.items.push_back(written_of(one));
    out.items.back().name = name;
  }
  return out;
}

Written list_of(const Json& array) {
  Written out{.kind = Kind::kList};
  for (const Json& one : array) out.items.push_back(written_of(one));
  return out;
}

Written written_of(const Json& value) {
  if (value.is_object()) return call_of(value);
  if (value.is_array()) return list_of(value);
  if (value.is_boolean()) return {.kind = Kind::kBool, .text = value.dump()};
  if (value.is_number()) return {.kind = Kind::kNumber, .text = value.dump()};
  if (value.is_string()) return {.kind = Kind::kWord, .text = value.get<std::string>()};
  return {.kind = Kind::kNone, .text = "none"};
}

}  // namespace

Written written_json(std::string_view json, std::string_view what) {
  return written_of(parse_json<Json>(json, what, kLimits));
}

std::string json_text(const Component& component) { return json_of(written(component)).dump(); }

}  // namespace millrace
