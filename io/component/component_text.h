// Components as text: read from call syntax and TOML values, printed, explained, compared.
//
//   const auto transforms = parse<TransformStep>("rrc(224), erase(p=0.1)", transforms_table());
//   text(transforms[1])        // "erase(0.1)": what differs from the defaults
//
// Grammar: calls "," between them; a call is WORD or WORD(ARGUMENT, ...); an argument is VALUE,
// NAME=VALUE, or the NAME of a bool; a value is a number, a word, "text", [VALUE, ...] or a call.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/component/choice.h"

namespace millrace {

/// The calls of a text, as a list. Throws: Mistake.
Written written_calls(std::string_view text);
/// The same of a string in TOML or JSON; whether it is one.
Written written_calls(const Written& quoted);
bool is_calls(const Written& quoted);
/// A value of TOML: a string of calls, an array of them, a table { name = "erase", p = 0.1 }.
/// Throws: Mistake.
Written written_toml(std::string_view text);

/// Throws: Mistake.
Component component_of(const Written& call, const Table& table);
/// Of a list, or one alone. Throws: Mistake.
std::vector<Component> components_of(const Written& calls, const Table& table);

template <typename Behaviour>
std::vector<Choice<Behaviour>> parse(std::string_view text, const TableOf<Behaviour>& table) {
  std::vector<Choice<Behaviour>> choices;
  for (Component& one : components_of(written_calls(text), table))
    choices.push_back(Choice<Behaviour>(std::move(one)));
  return choices;
}

/// Every field, by name: what a checkpoint records, since defaults change.
Written written(const Component& component);
/// The shortest text that parse() takes back: for people.
std::string text(const Component& component);
std::string text(const Written& value);

/// "p: 0.25 here, 0.5 there", for each field that differs, with `here` and `there` as given.
std::vector<std::string> differences(const Component& a, const Component& b, std::string_view here,
                                     std::string_view there);

/// "erase(p=0.25, area=[0.02, 0.33])": one line of help.
std::string usage(const StructType& type);
/// The names, the usage, and a line for each field.
std::string help(const StructType& type);
/// A line for each component of the kind.
std::string help(const Table& table);
/// The arguments of the class's constructor: "self, size: int, *, padding: int = 0".
std::string python_arguments(const StructType& type);

/// The source, and under it the place that `mistake` names.
std::string pointed_at(std::string_view source, const Mistake& mistake);
/// "; did you mean hflip?", or "; there are erase, hflip, rrc" where none is near.
std::string or_names(std::string_view word, std::span<const std::string> words);

}  // namespace millrace
