// ParquetColumns: which columns of a Parquet file become which fields of a sample
// (wds/parquet_shard.h).
//
// Threads: a value; const members from any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wds/row_table.h"
#include "wds/sample.h"

namespace millrace::wds::detail {

class ParquetColumns {
 public:
  /// `choice` is a url's fragment, `suffixes` the fields that are wanted; empty: all. Throws:
  /// InvalidArgument (a choice that is none, a column that there is not), Unsupported (a column of
  /// another type, two of one field).
  ParquetColumns(const std::vector<RowColumn>& columns, std::string_view choice,
                 const std::vector<std::string>& suffixes);

  /// The columns to read.
  const std::vector<std::size_t>& wanted() const { return wanted_; }
  /// The key that a row has; nullopt: by its number.
  std::optional<std::string> key_of(const RowBatch& batch, std::size_t row) const;
  /// The fields of a row that are wanted, each with memory of its own. `batch` is of wanted().
  /// Throws: Corrupt, Unsupported, Exhausted (a value above `max_bytes`), with the column.
  std::vector<Field> fields_of(const RowBatch& batch, std::size_t row,
                               std::uint64_t max_bytes) const;

 private:
  enum class Role { kOwn, kFile, kLabel, kText, kJson, kKey };
  struct Use {
    std::size_t column;  ///< place in wanted_
    Role role;
    std::string name;   ///< as it is
    std::string field;  ///< as part of a suffix
  };
  using Choice = std::vector<std::pair<Role, std::size_t>>;

  static Choice parsed(const std::vector<RowColumn>& columns, std::string_view choice);
  static Choice usual(const std::vector<RowColumn>& columns);
  bool is_wanted(std::string_view suffix) const;
  bool may_give(Role role, const std::string& field) const;
  void add_files(const Use& use, RowValue& value, std::uint64_t max_bytes,
                 std::vector<Field>& fields) const;
  void add(std::string suffix, io::Bytes data, std::vector<Field>& fields) const;

  std::vector<std::string> suffixes_;
  std::vector<std::size_t> wanted_;
  std::vector<Use> uses_;
};

}  // namespace millrace::wds::detail
