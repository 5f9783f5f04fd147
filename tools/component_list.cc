#include "tools/component_list.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/component/component_text.h"

namespace millrace::tools {
namespace {

using Json = nlohmann::ordered_json;

Json described_field(const Field& field) {
  const std::string range = field.range.text();
  return {{"name", field.name},
          {"sentence",
           fmt::format("{}{}.", field.sentence, range.empty() ? "" : fmt::format(" ({})", range))}};
}

Json described_component(const std::string& kind, const StructType& type) {
  const ComponentName& name = type.name();
  Json fields = Json::array();
  for (const Field& field : type.fields(type.usual())) fields.push_back(described_field(field));
  return {{"kind", kind},
          {"word", name.word},
          {"python", name.python},
          {"sentence", fmt::format("{}.", name.sentence)},
          {"arguments", python_arguments(type)},
          {"fields", std::move(fields)}};
}

}  // namespace

std::string component_list(std::span<const Table* const> tables) {
  std::string lines;
  for (const Table* table : tables)
    for (const Component& one : table->all())
      lines += described_component(table->kind(), one.type()).dump() + "\n";
  return lines;
}

}  // namespace millrace::tools
