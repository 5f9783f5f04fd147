// CsvFile: a table of comma-separated values, read into memory and checked: every row has as many
// fields as the header has columns.
//
//   const CsvFile table("train.csv");
//   const std::size_t id = table.column("SOPInstanceUID");
//   table.row(0)[id];
//
// Quoted fields may contain commas, quotes ("") and line ends; lines end in LF or CRLF; a UTF-8
// byte order mark and empty lines are skipped. Source: RFC 4180. Buffers: the file, and 16 bytes
// per row. Threads: const members may be called from many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace millrace::tools {

class CsvFile {
 public:
  /// Throws: NotFound, Io, Corrupt with the file and line, Exhausted (over 4 GiB).
  explicit CsvFile(const std::string& path);

  const std::string& path() const { return path_; }
  const io::Bytes& bytes() const { return bytes_; }
  const std::vector<std::string>& columns() const { return columns_; }
  /// The index of the column `name`. Throws: InvalidArgument, naming the existing columns.
  std::size_t column(const std::string& name) const;

  std::uint64_t num_rows() const { return rows_.size(); }
  /// The fields of a row, not counting the header; `quoted`, if it is wanted, says which of them
  /// are in quotes. Requires: row < num_rows().
  std::vector<std::string> row(std::uint64_t row, std::vector<bool>* quoted = nullptr) const;
  /// Where a row begins: "train.csv line 17".
  std::string place(std::uint64_t row) const;

 private:
  struct Row {
    std::uint64_t offset;
    std::uint64_t line;  ///< from 1
  };
  std::string place_of_line(std::uint64_t line) const;
  /// Parses one record from `at` on and counts its lines. Returns false at the end.
  bool parse(Row& at, std::vector<std::string>& fields, std::vector<bool>* quoted = nullptr) const;
  void parse_quoted(Row& at, std::string& field) const;

  std::string path_;
  io::Bytes bytes_;
  std::string_view text_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

/// Text with placeholders for columns: "{StudyInstanceUID}/{SeriesInstanceUID}". Threads: const
/// members may be called from many threads at once.
class ColumnPattern {
 public:
  /// Throws: InvalidArgument for a column that `table` does not have, and for an unclosed brace.
  ColumnPattern(const std::string& text, const CsvFile& table);

  std::string fill(const std::vector<std::string>& row) const;
  /// The same as a pattern for FileFinder: *, ? and [ are wild cards in the text and literal in
  /// columns.
  std::string fill_wild(const std::vector<std::string>& row) const;

 private:
  struct Part {
    std::string text;
    std::optional<std::size_t> column;
  };
  std::vector<Part> parts_;
};

}  // namespace millrace::tools
