// ChoiceType, ChoicesType: a component of a kind, or a list of them, as a field of another one:
// loss=huber(0.5), transforms=[hflip, erase(0.1)].
//
//   const ValueType& value_type(const LossChoice&) {          // beside the kind's table
//     static const ChoiceType<Loss> type(standard_losses());
//     return type;
//   }
//
// Threads: const, from any.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io/component/component_text.h"

namespace millrace {

template <typename Behaviour>
class ChoiceType final : public ValueType {
 public:
  /// `table` is borrowed.
  explicit ChoiceType(const TableOf<Behaviour>& table) : table_(table) {}

  void read(const Written& from, void* value) const override {
    *static_cast<Choice<Behaviour>*>(value) = Choice<Behaviour>(
        component_of(is_calls(from) ? written_calls(from).items.front() : from, table_));
  }
  Written write(const void* value, Form form) const override {
    const auto& choice = *static_cast<const Choice<Behaviour>*>(value);
    return choice.type().write(choice.value(), form);
  }
  std::string python() const override { return table_.kind(); }
  std::string shown() const override {
    std::string text;
    for (const std::string& word : table_.words()) text += (text.empty() ? "" : "|") + word;
    return text;
  }

 private:
  const TableOf<Behaviour>& table_;
};

/// A list. The table is asked for when a list is read, since components that hold others are lines
/// of it themselves.
template <typename Behaviour>
class ChoicesType final : public ValueType {
  using Choices = std::vector<Choice<Behaviour>>;

 public:
  /// `python`: the class that all of them derive from, a literal.
  ChoicesType(const TableOf<Behaviour>& (*table)(), const char* python)
      : table_(table), python_(python) {}

  void read(const Written& from, void* value) const override {
    auto& choices = *static_cast<Choices*>(value);
    choices.clear();
    for (Component& one : components_of(from, table_()))
      choices.push_back(Choice<Behaviour>(std::move(one)));
  }
  Written write(const void* value, Form form) const override {
    Written list{.kind = Written::Kind::kList};
    for (const auto& one : *static_cast<const Choices*>(value))
      list.items.push_back(one.type().write(one.value(), form));
    return list;
  }
  std::string python() const override { return "Sequence[" + std::string(python_) + "]"; }
  std::string shown() const override { return "[CALL, ...]"; }

 private:
  const TableOf<Behaviour>& (*table_)();
  const char* python_;
};

}  // namespace millrace
