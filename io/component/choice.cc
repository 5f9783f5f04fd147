#include "io/component/choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/base/suggest.h"
#include "io/component/component_text.h"

namespace millrace {
namespace {

std::vector<std::string> field_names(const Component& component) {
  std::vector<std::string> names;
  for (const Field& field : component.type().fields(component.value()))
    names.emplace_back(field.name);
  return names;
}

}  // namespace

Component::Component(std::unique_ptr<Held> held) : held_(std::move(held)) {}
Component::~Component() = default;
Component::Component(const Component& other) = default;
Component::Component(Component&& other) noexcept = default;
Component& Component::operator=(const Component& other) = default;
Component& Component::operator=(Component&& other) noexcept = default;

bool Component::operator==(const Component& other) const {
  return &type() == &other.type() && written(*this) == written(other);
}

std::vector<std::string> Table::words() const {
  std::vector<std::string> words;
  for (const Component& one : all_) words.emplace_back(one.type().name().word);
  return words;
}

void Table::add(Component usual) {
  const std::string word(usual.type().name().word);
  const std::vector<std::string> known = words();
  if (std::ranges::find(known, word) != known.end())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there is a {} called {} already", kind_, word));
  std::vector<std::string> names = field_names(usual);
  names.push_back("name");  // a table's word in TOML and JSON
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} cannot list a field called {}", word, *twice));
  all_.push_back(std::move(usual));
}

const Component& Table::at(const Written& word) const {
  const std::string plain = plain_name(word.text);
  for (const Component& one : all_) {
    const ComponentName& name = one.type().name();
    if (plain == plain_name(name.word) || plain == plain_name(name.python)) return one;
  }
  throw Mistake(
      word, fmt::format("there is no {} '{}'{}", kind_, word.text, or_names(word.text, words())));
}

}  // namespace millrace
