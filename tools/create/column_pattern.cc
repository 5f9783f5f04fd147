#include "tools/create/column_pattern.h"

#include "io/base/error.h"

namespace millrace::tools {
namespace {

std::string glob_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

ColumnPattern::ColumnPattern(const std::string& text, const CsvFile& table) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = std::min(text.find('{', at), text.size());
    if (open > at) parts_.push_back({.text = text.substr(at, open - at), .column = {}});
    if (open == text.size()) return;
    const std::size_t close = text.find('}', open);
    if (close == std::string::npos)
      throw Error(ErrorCode::kInvalidArgument, "unterminated brace: " + text);
    parts_.push_back({.text = {}, .column = table.column(text.substr(open + 1, close - open - 1))});
    at = close + 1;
  }
}

std::string ColumnPattern::fill(const std::vector<std::string>& row) const {
  std::string out;
  for (const Part& part : parts_) out += part.column ? row[*part.column] : part.text;
  return out;
}

std::string ColumnPattern::fill_wild(const std::vector<std::string>& row) const {
  std::string out;
  for (const Part& part : parts_) out += part.column ? glob_escaped(row[*part.column]) : part.text;
  return out;
}

}  // namespace millrace::tools
