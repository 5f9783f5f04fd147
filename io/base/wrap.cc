#include "io/base/wrap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

namespace millrace {
namespace {

constexpr std::size_t kMostColumns = 80;
constexpr std::size_t kLeastColumns = 48;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kTextColumn = 28;  ///< where entries are explained

}  // namespace

std::size_t text_columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kMostColumns;
  return std::clamp<std::size_t>(size.ws_col, kLeastColumns, kMostColumns);
}

std::string wrapped(const std::string& text, std::size_t column, std::size_t indent) {
  std::istringstream words(text);
  const std::size_t columns = text_columns();
  std::string lines;
  std::size_t at = column;
  bool first = true;
  for (std::string word; words >> word; at += word.size()) {
    while ((words >> std::ws).peek() == '%') {  // "2.7 %"
      std::string unit;
      words >> unit;
      word.append(1, ' ').append(unit);
    }
    if (!first && at + 1 + word.size() > columns) {
      lines.append(1, '\n').append(indent, ' ');
      at = indent;
    } else if (!first) {
      lines += ' ';
      ++at;
    }
    lines += word;
    first = false;
  }
  return lines;
}

std::string help_entry(const std::string& left, const std::string& text) {
  std::string line = std::string(kIndent, ' ') + left;
  if (line.size() + kIndent > kTextColumn && !text.empty())
    line += "\n" + std::string(kTextColumn, ' ');
  else
    line.resize(std::max(line.size(), kTextColumn), ' ');
  return line + wrapped(text, kTextColumn, kTextColumn) + "\n";
}

}  // namespace millrace
