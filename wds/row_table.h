// RowTable: rows of named values in groups, as Parquet files and Arrow's streams of record batches
// hold them.
//
// Apache Arrow reads them. Its libraries are large, and few runs need them: what uses them is a
// module of its own (libmillrace_arrow.so), loaded when the first table is opened.
//
//   const auto table = open_parquet_table(std::make_shared<const MyRanges>(...));
//   const auto batches = table->read(0, {1, 4});
//   while (const auto batch = batches->next())
//     for (std::size_t row = 0; row < batch->rows(); ++row) use(batch->value(0, row));
//
// Only the columns that are asked for are read, each by one range per group. Buffers: of a group
// that is read, those columns as they are stored, and one batch of rows.
//
// Threads: const members may be called from many threads at once; RowBatches one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/bytes.h"

namespace millrace::wds {

/// Bytes of a value that is no JSON.
struct RowFile {
  /// Shares the memory of its batch.
  io::Bytes data = {};
  /// As the path says that is stored beside it, in lower case; empty: there is none.
  std::string suffix = {};
  /// Its place in a list, in which null elements count.
  std::size_t place = 0;
};

struct RowValue {
  std::string json = "null";
  /// If there are any, `json` has no meaning.
  std::vector<RowFile> files = {};
  /// Whether `files` are a list, also of one.
  bool is_list = false;

  bool is_null() const { return files.empty() && json == "null"; }
};

enum class ColumnKind {
  kFile,     ///< Hugging Face's pictures, sounds and films: {bytes, path}
  kBytes,    ///< binary
  kText,     ///< texts
  kInteger,  ///< whole numbers and truth values
  kOther,    ///< other numbers, lists, structs, times, ...
};

struct RowColumn {
  std::string name;
  ColumnKind kind = ColumnKind::kOther;
  /// Names of the classes that its numbers stand for; empty if there are none.
  std::vector<std::string> classes = {};
};

/// Consecutive rows of the columns that were asked for.
class RowBatch {
 public:
  virtual ~RowBatch() = default;
  virtual std::size_t rows() const = 0;
  /// Memory that it takes.
  virtual std::size_t num_bytes() const = 0;
  /// `column` is the place among those that were asked for. Throws: Corrupt, Unsupported.
  virtual RowValue value(std::size_t column, std::size_t row) const = 0;
};

class RowBatches {
 public:
  virtual ~RowBatches() = default;
  /// The next rows of the group; null at its end. Throws: Corrupt, Truncated, Unsupported,
  /// Exhausted; as RowRanges::read().
  virtual std::shared_ptr<const RowBatch> next() = 0;
};

class RowTable {
 public:
  virtual ~RowTable() = default;
  /// No two have one name.
  virtual const std::vector<RowColumn>& columns() const = 0;
  /// The number of rows in each group.
  virtual const std::vector<std::uint64_t>& group_rows() const = 0;
  /// Lifetime: the table may end before. Throws: as RowBatches::next().
  virtual std::unique_ptr<RowBatches> read(std::size_t group,
                                           const std::vector<std::size_t>& columns) const = 0;
};

/// Where a table's bytes come from.
class RowRanges {
 public:
  virtual ~RowRanges() = default;
  virtual std::uint64_t size() const = 0;
  /// Fills `into` with the bytes from `offset` on. Throws: Error.
  virtual void read(std::uint64_t offset, std::span<std::byte> into) const = 0;
};

/// Throws: Unsupported in a build without Arrow, if its libraries cannot be loaded, or for two
/// columns of one name; Corrupt, Truncated; as RowRanges::read().
std::unique_ptr<RowTable> open_parquet_table(std::shared_ptr<const RowRanges> ranges);
/// A local file of record batches, each of which is a group; it is mapped into memory. Throws: as
/// open_parquet_table().
std::unique_ptr<RowTable> open_arrow_stream(const std::string& path);

/// What the module exports; the caller owns the result. Without `ranges`, `path` is a stream's.
inline constexpr const char* kArrowModuleEntry = "millrace_open_row_table";
using ArrowModuleEntry = RowTable*(std::shared_ptr<const RowRanges> ranges,
                                   const std::string& path);

}  // namespace millrace::wds
