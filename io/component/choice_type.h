// ChoiceType: a component of a kind as a field of another one: loss=huber(0.5).
//
//   const ValueType& value_type(const LossChoice&) {          // beside the kind's table
//     static const ChoiceType<Loss> type(standard_losses());
//     return type;
//   }
//
// Threads: const, from any.
#pragma once

#include <string>

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

}  // namespace millrace
