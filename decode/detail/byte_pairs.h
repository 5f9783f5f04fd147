// Byte pair encoding: a word as the numbers of its pieces, which begin as its characters and are
// merged two by two, the pair of the lowest rank first.
//
// Source: Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword units"
// (2016); the results are those of Hugging Face's tokenizers.
//
// Threads: const is callable from many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace millrace::decode::detail {

/// Finds by a view of the key.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
template <typename Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

struct BytePairOptions {
  TextMap<std::uint32_t> vocabulary = {};
  std::vector<std::pair<std::string, std::string>> merges = {};
  std::string end_of_word = {};             ///< what a word's last character has behind it: "</w>"
  std::optional<std::string> unknown = {};  ///< of characters that the vocabulary lacks; or nothing
  bool fuses_unknown = false;
  bool ignores_merges = false;  ///< of words that the vocabulary has
};

class BytePairs {
 public:
  /// Throws: Corrupt for merges of what the vocabulary lacks.
  explicit BytePairs(BytePairOptions options);

  /// Appends the word's numbers. n log(n) in its bytes.
  void encode(std::string_view word, std::vector<std::int64_t>& numbers) const;
  std::optional<std::uint32_t> number_of(std::string_view piece) const;

 private:
  struct Merge {
    std::size_t rank = 0;
    std::uint32_t number = 0;
  };
  class Word;

  const Merge* merge_of(std::uint32_t left, std::uint32_t right) const;
  std::vector<std::uint32_t> characters(std::string_view word) const;

  BytePairOptions options_;
  std::optional<std::uint32_t> unknown_;
  std::unordered_map<std::uint64_t, Merge> merges_;
};

}  // namespace millrace::decode::detail
