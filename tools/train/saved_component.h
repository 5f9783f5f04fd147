// A component in a run's JSON, and read from there in the form of today or of before.
//
// Threads: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "io/base/json.h"
#include "io/component/component_json.h"

namespace millrace::tools {

/// An object with every field.
inline nlohmann::ordered_json component_json(const Component& component) {
  return parse_json<nlohmann::ordered_json>(millrace::json_text(component), "a component");
}

/// The component under `key`: an object with every field. In JSON of before models and tasks were
/// components it is a name, and the fields, of others too, stand beside it. Throws:
/// InvalidArgument.
inline Component saved_component(const nlohmann::ordered_json& json, const std::string& key,
                                 const millrace::Table& table) {
  nlohmann::ordered_json call = json.at(key);
  if (call.is_string()) {
    const Component& usual = table.at({.kind = Written::Kind::kWord, .text = call});
    call = {{"name", usual.type().name().word}};
    for (const Field& field : usual.type().fields(usual.value()))
      if (const auto found = json.find(field.name); found != json.end())
        call[std::string(field.name)] = *found;
  }
  return component_of(written_json(call.dump(), "the checkpoint's " + key), table);
}

}  // namespace millrace::tools
