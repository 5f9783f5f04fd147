#include "tools/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "io/base/bidi.h"
#include "io/base/text.h"

namespace millrace::tools::html {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string all;
  for (;;) {
    const std::size_t valid = utf8_prefix(text);
    for (std::size_t at = 0; at < valid; ++at) {
      const char c = text[at];
      if (bidi_control(text.substr(at)) != 0) {
        all += kReplacement;
        at += kBidiBytes - 1;
        continue;
      }
      const auto byte = static_cast<unsigned char>(c);
      const bool is_control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
      const std::string_view replaced = is_control ? kReplacement : entity(c);
      all += replaced.empty() ? std::string_view(&c, 1) : replaced;
    }
    if (valid == text.size()) return all;
    all += kReplacement;
    text.remove_prefix(valid + 1);
  }
}

std::string number(double value) {
  constexpr std::array<std::pair<double, const char*>, 3> kUnits = {
      {{1e9, "G"}, {1e6, "M"}, {1e4, "k"}}};
  const double size = std::abs(value);
  if (size >= 1e12) return fmt::format("{:.3g}", value);
  for (const auto& [from, unit] : kUnits)
    if (size >= from) return fmt::format("{:.3g}{}", value / (from == 1e4 ? 1e3 : from), unit);
  return size < 1e-3 ? fmt::format("{:.3g}", value) : fmt::format("{:.4g}", value);
}

std::string percent(double share) {
  const bool is_tiny = share != 0 && std::abs(share) < 1e-3;
  return is_tiny ? fmt::format("{:.2g} %", 100 * share) : fmt::format("{:.1f} %", 100 * share);
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} µs", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.1f} ms", 1e3 * seconds);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e12)));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string bytes(double count) {
  if (count < 1e3) return fmt::format("{:.0f} B", count);
  if (count < 1e6) return fmt::format("{:.1f} kB", 1e-3 * count);
  return count < 1e9 ? fmt::format("{:.1f} MB", 1e-6 * count)
                     : fmt::format("{:.1f} GB", 1e-9 * count);
}

std::string or_dash(const std::optional<double>& value, std::string (*text)(double)) {
  return value ? text(*value) : "–";
}

std::string table(const std::vector<Column>& columns,
                  const std::vector<std::vector<std::string>>& rows) {
  constexpr std::size_t kMostSideBySide = 3;
  constexpr std::size_t kMostOnTablet = 8;
  const bool has_cards = columns.size() > kMostSideBySide;
  const bool is_wide = columns.size() > kMostOnTablet;
  std::string text = fmt::format("<div class=\"scroll\" tabindex=\"0\"><table{}><thead><tr>",
                                 is_wide     ? " class=\"cards wide\""
                                 : has_cards ? " class=\"cards\""
                                             : "");
  for (const Column& column : columns)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", column.is_number ? " class=\"n\"" : "",
                        escaped(column.title));
  text += "</tr></thead><tbody>";
  for (const auto& row : rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      text += fmt::format(
          "<td{}{}>{}</td>", columns[i].is_number ? " class=\"n\"" : "",
          has_cards ? fmt::format(" data-label=\"{}\"", escaped(columns[i].title)) : "", row[i]);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string section(std::string_view id, std::string_view title, const std::string& content) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}"
      "</h2>\n{2}</section>\n",
      escaped(id), escaped(title), content);
}

std::string tile(std::string_view name, std::string_view value, std::string_view note) {
  return fmt::format("<div><dt>{}</dt><dd>{}<small>{}</small></dd></div>", escaped(name),
                     escaped(value), escaped(note));
}

std::string picture(std::string_view type, std::string_view base64, int width, int height,
                    bool is_exact, std::string_view alt) {
  constexpr int kPixelatedSide = 64;
  const bool is_small = is_exact || std::max(width, height) <= kPixelatedSide;
  return fmt::format(
      "<img src=\"data:{};base64,{}\" width=\"{}\" height=\"{}\"{} loading=\"lazy\" "
      "decoding=\"async\" alt=\"{}\">",
      type, base64, width, height, is_small ? " class=\"small\"" : "", escaped(alt));
}

std::string document(std::string_view title, std::string_view style, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{} - "
      "millrace</title>\n<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      escaped(title), style, body);
}

}  // namespace millrace::tools::html
