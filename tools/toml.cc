#include "tools/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::tools {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool is_key(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

/// A boolean, or what may be a number.
bool is_bare_value(std::string_view word) {
  if (word == "true" || word == "false") return true;
  return word.find_first_of("0123456789") != std::string_view::npos &&
         word.find_first_not_of("0123456789+-._eE") == std::string_view::npos;
}

class TomlReader {
 public:
  TomlReader(std::string_view text, std::string path) : text_(text), path_(std::move(path)) {}

  std::vector<TomlEntry> read() {
    std::vector<TomlEntry> entries;
    std::unordered_map<std::string, std::size_t> lines;
    for (skip_empty(); !at_end(); skip_empty()) {
      entries.push_back(read_entry());
      const auto [first, fresh] = lines.emplace(entries.back().key, entries.back().line);
      if (!fresh)
        refuse(fmt::format("{} is set on line {} too", printable(first->first), first->second),
               entries.back().line);
    }
    return entries;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, std::size_t line) const {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", path_, line, what));
  }
  [[noreturn]] void refuse(const std::string& what) const { refuse(what, line_); }

  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\n' : text_[at_]; }

  void skip_blanks() {
    while (!at_end() && is_blank(peek())) ++at_;
  }
  /// Skips blanks, comments and line ends.
  void skip_empty() {
    for (skip_blanks(); !at_end() && (peek() == '\n' || peek() == '#'); skip_blanks()) {
      at_ = std::min(text_.find('\n', at_), text_.size());
      if (at_end()) return;
      ++at_;
      ++line_;
    }
  }

  TomlEntry read_entry() {
    TomlEntry entry{.line = line_};
    entry.key = read_key();
    skip_blanks();
    if (peek() != '=') refuse("expected KEY = VALUE");
    ++at_;
    skip_blanks();
    entry.array = peek() == '[';
    entry.values = entry.array ? read_array() : std::vector{read_value()};
    skip_blanks();
    if (peek() != '\n' && peek() != '#') refuse("a value with blanks or commas needs quotes");
    return entry;
  }

  std::string read_key() {
    if (peek() == '[')
      refuse("[tables] are not supported: give each option by its name, such as lr = 0.1");
    if (peek() == '"' || peek() == '\'') return read_string();
    const std::size_t begin = at_;
    while (!at_end() && is_key(peek())) ++at_;
    if (at_ == begin) refuse("expected KEY = VALUE");
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::vector<std::string> read_array() {
    ++at_;
    std::vector<std::string> values;
    for (skip_empty(); peek() != ']'; skip_empty()) {
      if (at_end()) refuse("an array without ]");
      values.push_back(read_value());
      skip_empty();
      if (at_end()) refuse("an array without ]");
      if (peek() == ',')
        ++at_;
      else if (peek() != ']')
        refuse("an array's values are separated by commas and end with ]");
    }
    ++at_;
    return values;
  }

  std::string read_value() {
    if (peek() == '[') refuse("nested arrays are not supported");
    if (peek() == '{') refuse("{tables} are not supported: give each option by its name");
    if (peek() == '"' || peek() == '\'') return read_string();
    const std::size_t begin = at_;
    while (!at_end() && !is_blank(peek()) &&
           std::string_view("\n#,]").find(peek()) == std::string_view::npos)
      ++at_;
    if (at_ == begin) refuse("a value is missing");
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (!is_bare_value(word))
      refuse(fmt::format("words need quotes in TOML: \"{}\"", printable(word)));
    return std::string(word);
  }

  std::string read_string() {
    const char quote = peek();
    if (text_.substr(at_).starts_with(std::string(3, quote)))
      refuse("strings over several lines are not supported");
    ++at_;
    std::string value;
    for (; peek() != quote; ++at_) {
      if (peek() == '\n') refuse("an unterminated string");
      value += quote == '"' && peek() == '\\' ? read_escape() : peek();
    }
    ++at_;
    return value;
  }

  char read_escape() {
    ++at_;
    constexpr std::string_view kLetters = "\"\\tn";
    constexpr std::string_view kMeanings = "\"\\\t\n";
    const std::size_t which = kLetters.find(peek());
    if (which == std::string_view::npos)
      refuse("of escapes \\\" \\\\ \\t \\n are taken: '...' has none");
    return kMeanings[which];
  }

  std::string_view text_;
  std::string path_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

std::string read_bounded(std::istream& input, const std::string& path) {
  std::string text(kMaxTomlBytes + 1, '\0');
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(input.gcount()));
  require(text.size() <= kMaxTomlBytes, path + " is not a configuration file: it is over 1 MiB");
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

}  // namespace

std::vector<TomlEntry> read_toml(std::istream& input, const std::string& path) {
  const std::string text = read_bounded(input, path);
  const auto odd = std::find_if(text.begin(), text.end(), [](char c) {
    return c != '\n' && c != '\t' && c != '\r' && static_cast<unsigned char>(c) < 0x20;
  });
  if (odd != text.end())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}: a control character: this is not TOML", path,
                            1 + std::count(text.begin(), odd, '\n')));
  return TomlReader(text, path).read();
}

}  // namespace millrace::tools
