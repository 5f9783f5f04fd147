#include "io/detail/stores/xml.h"

#include <algorithm>
#include <cstddef>
#include <pugixml.hpp>

#include "io/base/error.h"

namespace millrace::io::detail {
namespace {

constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxElements = 100'000;

class Reader {
 public:
  Reader(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  XmlElement document() {
    constexpr unsigned kOptions = pugi::parse_default | pugi::parse_doctype;
    pugi::xml_document parsed;
    const auto result = parsed.load_buffer(text_.data(), text_.size(), kOptions);
    if (!result) fail(result.description(), result.offset);
    std::size_t roots = 0;
    for (const pugi::xml_node& node : parsed.children()) {
      if (node.type() == pugi::node_doctype) fail("a document type", node.offset_debug());
      if (++roots > 1) fail("more than one root", node.offset_debug());
    }
    if (roots == 0) fail("no root", 0);
    return element(parsed.document_element(), 0);
  }

 private:
  [[noreturn]] void fail(const std::string& how, std::ptrdiff_t at) const {
    throw Error(ErrorCode::kCorrupt, std::string(what_) + " is not XML as expected: " + how +
                                         " at byte " + std::to_string(at));
  }

  XmlElement element(const pugi::xml_node& node, int depth) {
    if (depth == kMaxDepth || ++count_ > kMaxElements)
      fail("too many elements", node.offset_debug());
    XmlElement made{.name = node.name()};
    for (const pugi::xml_node& child : node.children()) {
      if (child.type() == pugi::node_element) {
        made.children.push_back(element(child, depth + 1));
      } else if (child.type() == pugi::node_pcdata || child.type() == pugi::node_cdata) {
        made.text += child.value();
      }
    }
    return made;
  }

  std::string_view text_;
  std::string_view what_;
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
  return Reader(text, what).document();
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
