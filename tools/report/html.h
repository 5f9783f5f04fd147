// Text as HTML: escaping, and the numbers as the report writes them.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::tools::html {

/// `text` as content or as a quoted attribute's value. Bytes that are no UTF-8, and characters that
/// no document may hold, become U+FFFD.
std::string escaped(std::string_view text);
/// "12.3k", "0.0125", "1.53": at most four digits that matter.
std::string number(double value);
/// "89.2 %".
std::string percent(double share);
/// "1 h 02 min", "12.3 s", "4.1 ms".
std::string duration(double seconds);
/// "12.3 MB".
std::string bytes(double count);
/// A value that may be missing: "–".
std::string or_dash(const std::optional<double>& value, std::string (*text)(double));

struct Column {
  std::string title;
  bool is_number = false;
};
/// A table; cells are HTML, titles are text. On a telephone a row of more than three cells is a
/// card, one of more than eight on a tablet, too.
std::string table(const std::vector<Column>& columns,
                  const std::vector<std::vector<std::string>>& rows);
/// An entry of a list with the class `tiles`: a value with its name and a remark.
std::string tile(std::string_view name, std::string_view value, std::string_view note);
/// <section> with a heading; `title` is text, `content` HTML.
std::string section(std::string_view id, std::string_view title, const std::string& content);

/// A picture within the page, drawn enlarged by whole pixels if both sides have at most 64
/// or `is_exact`. `type` is "image/png"; `alt` is text.
std::string picture(std::string_view type, std::string_view base64, int width, int height,
                    bool is_exact, std::string_view alt);

/// A whole document; `title` is text, `style` CSS, `body` HTML.
std::string document(std::string_view title, std::string_view style, const std::string& body);

}  // namespace millrace::tools::html
