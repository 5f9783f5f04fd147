#include <fmt/format.h>

#include <charconv>

#include "io/component/component_text.h"

namespace millrace {
namespace {

using Kind = Written::Kind;

constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMaxBytes = 1 << 16;
constexpr std::string_view kSpecial = " \t\r\n,()[]{}=\"'";

Kind kind_of(std::string_view atom) {
  double number = 0;
  const char* end = atom.data() + atom.size();
  const auto [stop, error] = std::from_chars(atom.data(), end, number);
  if (error == std::errc() && stop == end) return Kind::kNumber;
  if (atom == "true" || atom == "false") return Kind::kBool;
  return atom == "none" ? Kind::kNone : Kind::kWord;
}

/// The grammar of component_text.h; with { } also TOML's.
class Reader {
 public:
  explicit Reader(std::string_view text, std::size_t column = 0) : text_(text), column_(column) {
    if (text.size() > kMaxBytes) refuse("this is too long");
  }

  Written calls() {
    Written list{.kind = Kind::kList, .end = text_.size()};
    while (!at_end()) {
      list.items.push_back(value());
      if (!at_end() && !take(',')) refuse("expected a comma here");
    }
    return list;
  }

  Written toml() {
    Written one = value();
    if (!at_end()) refuse("expected nothing after the value");
    return one;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Mistake({.begin = column_ + at_, .end = column_ + at_ + 1}, what);
  }

  [[noreturn]] void unclosed(std::size_t begin) {
    at_ = begin;
    refuse(fmt::format("this {} is not closed", text_[begin]));
  }

  bool at_end() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    return at_ == text_.size();
  }
  char peek() { return at_end() ? '\0' : text_[at_]; }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  Written value() {
    if (depth_ == kMaxDepth) refuse("this is nested too deep");
    ++depth_;
    const char first = peek();
    const std::size_t begin = column_ + at_;
    Written one = first == '"' || first == '\'' ? quoted()
                  : first == '['                ? items({.kind = Kind::kList}, '[', ']')
                  : first == '{'                ? table()
                                                : atom();
    if (one.kind == Kind::kWord && peek() == '(' && first != '"' && first != '\'') {
      one.kind = Kind::kCall;
      one = items(std::move(one), '(', ')');
    }
    one.begin = begin;
    --depth_;
    return one;
  }

  Written quoted() {
    const std::size_t begin = at_;
    const char quote = text_[at_++];
    Written one{.kind = Kind::kWord};
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      const bool escaped = quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size();
      one.text += escaped ? text_[++at_] : text_[at_];
    }
    if (at_ == text_.size()) unclosed(begin);
    one.end = column_ + ++at_;
    return one;
  }

  Written atom() {
    const std::size_t end = std::min(text_.find_first_of(kSpecial, at_), text_.size());
    if (end == at_) refuse("expected a name or a value here");
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    return {.kind = kind_of(word), .text = std::string(word), .end = column_ + end};
  }

  Written items(Written one, char open, char close) {
    const std::size_t begin = at_;
    take(open);
    while (!take(close)) {
      if (at_end()) unclosed(begin);
      one.items.push_back(argument());
      if (at_end()) unclosed(begin);
      if (peek() != close && !take(',')) refuse(fmt::format("expected a comma or {} here", close));
    }
    one.end = column_ + at_;
    return one;
  }

  // A mistake in the name is shown at the name.
  Written argument() {
    Written name = value();
    if (!take('=')) return name;
    Written one = value();
    one.name = name.text;
    if (one.kind != Kind::kCall) one.begin = name.begin;
    return one;
  }

  // TOML's { name = "erase", p = 0.1 }: the same as erase(p=0.1).
  Written table() {
    Written one = items({.kind = Kind::kCall}, '{', '}');
    for (auto it = one.items.begin(); it != one.items.end(); ++it) {
      if (it->name != "name") continue;
      one.text = it->text;
      one.items.erase(it);
      break;
    }
    return one;
  }

  std::string_view text_;
  std::size_t column_;  ///< of the text in its source
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
};

}  // namespace

Written written_calls(std::string_view text) { return Reader(text).calls(); }

bool is_calls(const Written& quoted) {
  return quoted.kind == Kind::kWord && quoted.text.find_first_of("(,") != std::string::npos;
}

Written written_calls(const Written& quoted) {
  const bool has_quotes = quoted.end > quoted.begin + quoted.text.size();
  Written list = Reader(quoted.text, quoted.begin + (has_quotes ? 1 : 0)).calls();
  if (list.items.empty()) throw Mistake(quoted, "expected a name here");
  return list;
}

Written written_toml(std::string_view text) { return Reader(text).toml(); }

Component component_of(const Written& call, const Table& table) {
  if (is_calls(call)) return component_of(written_calls(call).items.front(), table);
  std::unique_ptr<Component::Held> held = table.at(call).held().clone();
  held->type().read(call, held->value());
  return Component(std::move(held));
}

std::vector<Component> components_of(const Written& calls, const Table& table) {
  if (is_calls(calls)) return components_of(written_calls(calls), table);
  std::vector<Component> components;
  if (calls.kind != Kind::kList) components.push_back(component_of(calls, table));
  for (const Written& one : calls.items)
    if (calls.kind == Kind::kList) components.push_back(component_of(one, table));
  return components;
}

}  // namespace millrace
