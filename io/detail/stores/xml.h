// XML as object stores answer with it: elements and text, parsed within limits.
//
// Attributes, comments and processing instructions are skipped; a document type is refused. Source:
// pugixml.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::io::detail {

struct XmlElement {
  std::string name = {};
  /// Its own text, entities replaced.
  std::string text = {};
  std::vector<XmlElement> children = {};

  /// The first child of that name; null if there is none.
  const XmlElement* child(std::string_view wanted) const;
  /// The first child's text; empty if there is none.
  std::string_view text_of(std::string_view wanted) const;
};

/// The document's root. `what` begins the message. Throws: Corrupt (not XML, cut short, with a
/// document type, deeper than 16 elements, more than 100,000).
XmlElement parse_xml(std::string_view text, std::string_view what);

/// `text` with &, < and > escaped.
std::string xml_escaped(std::string_view text);

}  // namespace millrace::io::detail
