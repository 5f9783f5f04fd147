#include "tools/create/csv_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/local_file.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxTableBytes = std::size_t{4} << 30;

[[noreturn]] void corrupt(const std::string& place, const std::string& message) {
  throw Error(ErrorCode::kCorrupt, place + ": " + message);
}

bool is_empty_line(const std::vector<std::string>& fields) {
  return fields.size() == 1 && fields.front().empty();
}

}  // namespace

CsvFile::CsvFile(const std::string& path) : path_(path) {
  bytes_ = io::read_local_file(path, kMaxTableBytes);
  text_ = bytes_.text();
  if (text_.find('\0') != std::string_view::npos)
    throw Error(ErrorCode::kCorrupt, "a CSV file holds no zero bytes", {.url = path});
  Row at{.offset = text_.starts_with("\xEF\xBB\xBF") ? 3U : 0U, .line = 1};
  while (columns_.empty() || is_empty_line(columns_)) {
    if (!parse(at, columns_)) throw Error(ErrorCode::kCorrupt, "no header row", {.url = path});
  }
  std::vector<std::string> fields;
  for (Row begin = at; parse(at, fields); begin = at) {
    if (is_empty_line(fields)) continue;
    if (fields.size() != columns_.size())
      corrupt(place_of_line(begin.line),
              counted(fields.size(), "field") + ", but " + counted(columns_.size(), "column"));
    rows_.push_back(begin);
  }
}

std::string CsvFile::place_of_line(std::uint64_t line) const {
  return fmt::format("{} line {}", path_, line);
}

std::string CsvFile::place(std::uint64_t row) const { return place_of_line(rows_[row].line); }

std::size_t CsvFile::column(const std::string& name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found == columns_.end())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} has no column '{}': it has {}", path_, printable(name),
                            printable(fmt::format("{}", fmt::join(columns_, ", ")), 1000)));
  if (std::find(found + 1, columns_.end(), name) != columns_.end())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} has two columns '{}'", path_, printable(name)));
  return static_cast<std::size_t>(found - columns_.begin());
}

std::vector<std::string> CsvFile::row(std::uint64_t row, std::vector<bool>* quoted) const {
  Row at = rows_[row];
  std::vector<std::string> fields;
  parse(at, fields, quoted);
  return fields;
}

bool CsvFile::parse(Row& at, std::vector<std::string>& fields, std::vector<bool>* quoted) const {
  fields.clear();
  if (at.offset >= text_.size()) return false;
  for (;;) {
    std::string& field = fields.emplace_back();
    const bool quote = at.offset < text_.size() && text_[at.offset] == '"';
    if (quoted != nullptr) quoted->push_back(quote);
    if (quote) {
      parse_quoted(at, field);
    } else {
      const std::size_t end = std::min(text_.find_first_of(",\n", at.offset), text_.size());
      field = text_.substr(at.offset, end - at.offset);
      at.offset = end;
      const bool line_ends = end == text_.size() || text_[end] == '\n';
      if (line_ends && field.ends_with('\r')) field.pop_back();
    }
    if (at.offset >= text_.size()) return true;
    if (text_[at.offset++] == '\n') {
      ++at.line;
      return true;
    }
  }
}

// Leaves `at` at the comma or line end after the closing quote.
void CsvFile::parse_quoted(Row& at, std::string& field) const {
  const std::uint64_t line = at.line;
  for (++at.offset;; ++at.offset) {
    if (at.offset >= text_.size()) corrupt(place_of_line(line), "an unterminated quoted field");
    const char c = text_[at.offset];
    if (c == '"' && text_.substr(at.offset + 1, 1) == "\"") {
      ++at.offset;
    } else if (c == '"') {
      break;
    }
    if (c == '\n') ++at.line;
    field += c;
  }
  ++at.offset;
  const std::string_view rest = text_.substr(at.offset);
  if (rest.starts_with("\r\n") || rest == "\r") ++at.offset;
  if (!rest.empty() && rest.front() != ',' && rest.front() != '\n' && rest.front() != '\r')
    corrupt(place_of_line(at.line), "text after a closing quote");
}

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
