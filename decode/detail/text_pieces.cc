#include "decode/detail/text_pieces.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "decode/detail/unicode.h"
#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::decode::detail {
namespace {

using nlohmann::json;

/// Steps of all of a file's sequences.
constexpr std::size_t kMostSteps = 32;
/// NFKC makes 3 bytes 33. Of a step's own, a replacement has at most so many bytes.
constexpr std::size_t kMostGrowth = 64, kSmallText = 4096, kMostReplacement = 16;

[[noreturn]] void refuse_tokenizer_part(std::string_view what) {
  throw Error(ErrorCode::kUnsupported, std::string(what) + " is not supported");
}

/// "type", or nothing of null.
std::string type_of_part(const json& described) {
  return described.is_null() ? std::string() : described.at("type").get<std::string>();
}

/// The parts of a sequence, of sequences too, in order.
std::vector<json> parts_of(const json& described, const char* key) {
  std::vector<json> parts;
  if (described.is_null()) return parts;
  if (type_of_part(described) != "Sequence") return {described};
  for (const json& one : described.at(key))
    for (json& part : parts_of(one, key)) parts.push_back(std::move(part));
  if (parts.size() > kMostSteps)
    refuse_tokenizer_part(fmt::format("a {} of more than {} steps", key, kMostSteps));
  return parts;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view by) {
  std::string made;
  std::size_t at = 0;
  for (std::size_t found = 0; (found = text.find(old, at)) != std::string_view::npos;
       at = found + old.size())
    made.append(text.substr(at, found - at)).append(by);
  return made.append(text.substr(at));
}

std::string spaces_replaced(std::string_view text, std::string_view by) {
  std::string made;
  bool was_space = false;
  for (std::size_t at = 0; at < text.size();) {
    const Char one = char_at(text, at);
    const bool is_space = one.kind == CharKind::kSpace;
    if (!is_space) made.append(text.substr(at, one.bytes));
    if (is_space && !was_space) made.append(by);
    was_space = is_space;
    at += one.bytes;
  }
  return made;
}

Normalizer make_replace(const json& described) {
  const json& pattern = described.at("pattern");
  const auto by = described.at("content").get<std::string>();
  if (by.size() > kMostReplacement)
    refuse_tokenizer_part(fmt::format("normalizer Replace by {} bytes", by.size()));
  if (const auto text = pattern.find("String"); text != pattern.end()) {
    const auto old = text->get<std::string>();
    if (old.empty()) refuse_tokenizer_part("normalizer Replace of an empty text");
    return [old, by](const std::string& of) { return replaced(of, old, by); };
  }
  const auto regex = pattern.at("Regex").get<std::string>();
  if (regex == "\\s+") return [by](const std::string& of) { return spaces_replaced(of, by); };
  refuse_tokenizer_part("normalizer Replace of \"" + printable(regex) + "\"");
}

Normalizer make_one_normalizer(const json& described) {
  constexpr std::array<std::pair<std::string_view, NormalForm>, 4> kForms = {
      {{"NFC", NormalForm::kNfc},
       {"NFD", NormalForm::kNfd},
       {"NFKC", NormalForm::kNfkc},
       {"NFKD", NormalForm::kNfkd}}};
  const std::string type = type_of_part(described);
  for (const auto& [name, form] : kForms)
    if (type == name) return [form](const std::string& text) { return normalized(text, form); };
  if (type == "Lowercase") return [](const std::string& text) { return lower_case(text); };
  if (type == "Replace") return make_replace(described);
  refuse_tokenizer_part("normalizer " + printable(type));
}

/// A piece of a text that a pattern matches, or a gap between two that it does.
struct Match {
  std::size_t end;
  bool is_gap = false;
};

using Pattern = Match (*)(std::string_view text, std::size_t at);

std::size_t run_end(std::string_view text, std::size_t at, CharKind kind) {
  while (at < text.size()) {
    const Char one = char_at(text, at);
    if (one.kind != kind) break;
    at += one.bytes;
  }
  return at;
}

/// 's|'t|'re|'ve|'m|'ll|'d; 0: none of them.
std::size_t contraction_bytes(std::string_view text) {
  constexpr std::array<std::string_view, 7> kEndings = {"'s", "'t",  "'re", "'ve",
                                                        "'m", "'ll", "'d"};
  for (const std::string_view ending : kEndings)
    if (text.starts_with(ending)) return ending.size();
  return 0;
}

/// \s+(?!\S)|\s+: but for the last one before another character.
std::size_t spaces_end(std::string_view text, std::size_t at) {
  std::size_t last = at;
  for (std::size_t end = at;; last = end, end += char_at(text, end).bytes)
    if (end == text.size())
      return end;
    else if (char_at(text, end).kind != CharKind::kSpace)
      return last > at ? last : end;
}

Match gpt2_match(std::string_view text, std::size_t at) {
  if (const std::size_t bytes = contraction_bytes(text.substr(at))) return {at + bytes};
  const std::size_t begin = text[at] == ' ' ? at + 1 : at;
  if (begin == text.size()) return {begin};
  const CharKind kind = char_at(text, begin).kind;
  if (kind != CharKind::kSpace) return {run_end(text, begin, kind)};
  return {spaces_end(text, at)};
}

Match clip_match(std::string_view text, std::size_t at) {
  if (const std::size_t bytes = contraction_bytes(text.substr(at))) return {at + bytes};
  const Char one = char_at(text, at);
  if (one.kind == CharKind::kSpace || one.kind == CharKind::kNumber)
    return {at + one.bytes, one.kind == CharKind::kSpace};
  return {run_end(text, at, one.kind)};
}

Match marked_clip_match(std::string_view text, std::size_t at) {
  for (const std::string_view mark : {"<|startoftext|>", "<|endoftext|>"})
    if (text.substr(at).starts_with(mark)) return {at + mark.size()};
  return clip_match(text, at);
}

struct KnownPattern {
  std::string_view regex;
  Pattern match;
};

constexpr std::array<KnownPattern, 3> kKnownPatterns = {{
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", gpt2_match},
    {R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)", clip_match},
    {R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)",
     marked_clip_match},
}};

Pattern known_pattern(const std::string& regex) {
  for (const KnownPattern& one : kKnownPatterns)
    if (one.regex == regex) return one.match;
  refuse_tokenizer_part("pre_tokenizer Split at \"" + printable(regex) + "\"");
}

struct SplitBy {
  Pattern pattern;
  bool keeps_matches = true, keeps_gaps = true;
};

void split(std::string_view text, const SplitBy& by, Pieces& pieces) {
  for (std::size_t at = 0; at < text.size();) {
    Match match = by.pattern(text, at);
    while (match.is_gap && match.end < text.size()) {
      const Match next = by.pattern(text, match.end);
      if (!next.is_gap) break;
      match = next;
    }
    if (match.is_gap ? by.keeps_gaps : by.keeps_matches)
      pieces.emplace_back(text.substr(at, match.end - at));
    at = match.end;
  }
}

Pieces split_all(const Pieces& texts, const SplitBy& by) {
  Pieces pieces;
  for (const std::string& text : texts) split(text, by, pieces);
  return pieces;
}

PreTokenizer make_split(const json& described) {
  const json& pattern = described.at("pattern");
  if (!pattern.contains("Regex")) refuse_tokenizer_part("pre_tokenizer Split at a text");
  SplitBy by = {.pattern = known_pattern(pattern.at("Regex").get<std::string>())};
  const auto behavior = described.at("behavior").get<std::string>();
  if (behavior == "Removed")
    (described.value("invert", false) ? by.keeps_gaps : by.keeps_matches) = false;
  else if (behavior != "Isolated")
    refuse_tokenizer_part("pre_tokenizer Split with the behavior " + printable(behavior));
  return [by](const Pieces& texts) { return split_all(texts, by); };
}

/// GPT-2's bytes_to_unicode(): a character that is seen for each byte.
std::array<std::string, 256> make_byte_characters() {
  std::array<std::string, 256> characters;
  std::int32_t other = 256;
  for (std::int32_t byte = 0; byte < 256; ++byte) {
    const bool is_seen = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    characters.at(static_cast<std::size_t>(byte)) = utf8(is_seen ? byte : other++);
  }
  return characters;
}

std::string as_byte_characters(std::string_view text) {
  static const std::array<std::string, 256> characters = make_byte_characters();
  std::string made;
  for (const char byte : text) made += characters.at(static_cast<unsigned char>(byte));
  return made;
}

PreTokenizer make_byte_level(const json& described) {
  const bool adds_space = described.value("add_prefix_space", true);
  const bool splits = described.value("use_regex", true);
  return [adds_space, splits](Pieces texts) {
    for (std::string& text : texts)
      if (adds_space && !text.starts_with(' ')) text.insert(text.begin(), ' ');
    Pieces pieces = splits ? split_all(texts, {.pattern = gpt2_match}) : std::move(texts);
    for (std::string& piece : pieces) piece = as_byte_characters(piece);
    return pieces;
  };
}

PreTokenizer make_one_pre_tokenizer(const json& described) {
  const std::string type = type_of_part(described);
  if (type == "ByteLevel") return make_byte_level(described);
  if (type == "Split") return make_split(described);
  refuse_tokenizer_part("pre_tokenizer " + printable(type));
}

}  // namespace

Normalizer make_normalizer(const json& described) {
  std::vector<Normalizer> steps;
  for (const json& part : parts_of(described, "normalizers"))
    steps.push_back(make_one_normalizer(part));
  return [steps = std::move(steps)](std::string text) {
    const std::size_t most = kMostGrowth * text.size() + kSmallText;
    for (const Normalizer& step : steps) {
      text = step(std::move(text));
      if (text.size() > most)
        throw Error(ErrorCode::kExhausted, "a text that its normalizer makes far longer");
    }
    return text;
  };
}

PreTokenizer make_pre_tokenizer(const json& described) {
  std::vector<PreTokenizer> steps;
  for (const json& part : parts_of(described, "pretokenizers"))
    steps.push_back(make_one_pre_tokenizer(part));
  return [steps = std::move(steps)](Pieces texts) {
    for (const PreTokenizer& step : steps) texts = step(std::move(texts));
    return texts;
  };
}

}  // namespace millrace::decode::detail
