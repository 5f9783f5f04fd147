#include "io/detail/xml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include "io/base/error.h"

namespace millrace::io::detail {
namespace {

constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMaxElements = 100'000;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0U | (code >> 6U));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U));
    put(0x80U | ((code >> 6U) & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U));
    put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU));
  }
  put(0x80U | (code & 0x3FU));
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  XmlElement document() {
    skip_misc();
    XmlElement root = element(0);
    skip_misc();
    if (at_ != text_.size()) fail("has something behind its end");
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& how) const {
    throw Error(ErrorCode::kCorrupt,
                std::string(what_) + " " + how + " at byte " + std::to_string(at_));
  }

  bool starts(std::string_view mark) const { return text_.substr(at_).starts_with(mark); }

  void skip_past(std::string_view mark) {
    const std::size_t found = text_.find(mark, at_);
    if (found == std::string_view::npos) {
      at_ = text_.size();
      fail("ends early");
    }
    at_ = found + mark.size();
  }

  void skip_misc() {
    for (;;) {
      while (at_ < text_.size() && is_space(text_[at_])) ++at_;
      if (starts("<?")) {
        skip_past("?>");
      } else if (starts("<!--")) {
        skip_past("-->");
      } else {
        return;
      }
    }
  }

  std::string name() {
    const std::size_t from = at_;
    while (at_ < text_.size() && !is_space(text_[at_]) && text_[at_] != '>' && text_[at_] != '/' &&
           text_[at_] != '<')
      ++at_;
    if (at_ == from) fail("has an element without a name");
    return std::string(text_.substr(from, at_ - from));
  }

  // Returns whether the element ends with its start tag: <a/>.
  bool rest_of_tag() {
    while (at_ < text_.size() && text_[at_] != '>') {
      const char c = text_[at_];
      if (c == '<') fail("is not XML");
      ++at_;
      if (c == '"' || c == '\'') skip_past(std::string_view(&c, 1));
    }
    if (at_ == text_.size()) fail("ends early");
    return text_[at_++ - 1] == '/';
  }

  XmlElement element(std::size_t depth) {
    if (!starts("<")) fail(at_ == text_.size() ? "ends early" : "is not XML");
    if (starts("<!")) fail("has a document type");
    if (depth == kMaxDepth || ++count_ > kMaxElements) fail("has too many elements");
    ++at_;
    XmlElement made{.name = name()};
    if (!rest_of_tag()) content(made, depth);
    return made;
  }

  void content(XmlElement& made, std::size_t depth) {
    for (;;) {
      const std::size_t next = std::min(text_.find('<', at_), text_.size());
      append_text(made.text, text_.substr(at_, next - at_));
      at_ = next;
      if (starts("</")) return end_tag(made.name);
      if (starts("<!--")) {
        skip_past("-->");
      } else {
        made.children.push_back(element(depth + 1));
      }
    }
  }

  void end_tag(const std::string& expected) {
    at_ += 2;
    if (name() != expected) fail("has tags that do not match");
    if (rest_of_tag()) fail("is not XML");
  }

  void append_text(std::string& to, std::string_view raw) {
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '&') {
        to += raw[i];
        continue;
      }
      const std::size_t end = raw.find(';', i);
      if (end == std::string_view::npos) fail("has a bad entity");
      append_entity(to, raw.substr(i + 1, end - i - 1));
      i = end;
    }
  }

  void append_entity(std::string& to, std::string_view entity) {
    constexpr std::array<std::pair<std::string_view, char>, 5> kNamed{
        {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};
    for (const auto& [known, c] : kNamed)
      if (entity == known) return void(to += c);
    if (!entity.starts_with('#')) fail("has an unknown entity");
    const bool is_hex = entity.starts_with("#x");
    const std::string_view digits = entity.substr(is_hex ? 2 : 1);
    std::uint32_t code = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, fault] = std::from_chars(digits.data(), end, code, is_hex ? 16 : 10);
    if (fault != std::errc() || stop != end || digits.empty() || code == 0 || code > 0x10FFFF)
      fail("has a bad entity");
    append_utf8(to, code);
  }

  std::string_view text_;
  std::string_view what_;
  std::size_t at_ = 0;
  std::size_t count_ = 0;
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view wanted) const {
  const auto found = std::find_if(children.begin(), children.end(),
                                  [&](const XmlElement& each) { return each.name == wanted; });
  return found == children.end() ? nullptr : &*found;
}

std::string_view XmlElement::text_of(std::string_view wanted) const {
  const XmlElement* found = child(wanted);
  return found == nullptr ? std::string_view{} : std::string_view(found->text);
}

XmlElement parse_xml(std::string_view text, std::string_view what) {
  return Parser(text, what).document();
}

std::string xml_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace millrace::io::detail
