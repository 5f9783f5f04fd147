// The words of an enumeration: what options, files and messages call its values.
//
//   enum class Uneven { kPad, kDrop };
//   inline constexpr std::array<Word<Uneven>, 2> kUnevenWords = {
//       {{"pad", Uneven::kPad}, {"drop", Uneven::kDrop}}};
//   const auto uneven = value_of("uneven", text, kUnevenWords);
//
// A value may have several words; the first is the one that is shown. Threads: any.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace {

template <typename E>
using Word = std::pair<std::string_view, E>;

/// As an argument, so that E follows from another one.
template <typename E>
using Words = std::type_identity_t<std::span<const Word<E>>>;

/// "" for a value without a word.
template <typename E>
std::string word_of(E value, Words<E> words) {
  for (const auto& [word, known] : words)
    if (known == value) return std::string(word);
  return {};
}

/// All words, in the table's order.
template <typename Table>
std::vector<std::string> names_of(const Table& words) {
  std::vector<std::string> names;
  names.reserve(words.size());
  for (const auto& entry : words) names.emplace_back(entry.first);
  return names;
}

/// Throws: InvalidArgument, with `option` and the words, for another text.
template <typename Table>
auto value_of(std::string_view option, const std::string& text, const Table& words) {
  std::string known;
  for (const auto& [word, value] : words) {
    if (word == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  throw Error(ErrorCode::kInvalidArgument,
              std::string(option) + " '" + printable(text) + "': must be one of " + known);
}

}  // namespace millrace
