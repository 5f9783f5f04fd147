// ParquetReader: the rows of one Parquet file as samples; ShardReader where the shard is one.
//
// Groups of rows are read one after another, a batch of rows at a time. A fault of a row costs the
// row, one of a group's data what is left of the group.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/base/error.h"
#include "wds/detail/parquet_columns.h"
#include "wds/shard_reader.h"

namespace millrace::wds::detail {

class ParquetReader {
 public:
  /// Opens the file; the first sample is that of row options.offset. Throws: as open_parquet();
  /// InvalidArgument for the choice of columns.
  ParquetReader(const io::Opener& opener, std::shared_ptr<const std::string> url,
                const ShardOptions& options);

  /// As ShardReader::next(), except that its Errors lack the url.
  bool next(Sample& sample);
  bool can_continue() const { return !broken_; }
  std::uint64_t lost_samples() const { return lost_; }
  /// The next row.
  std::uint64_t position() const { return row_; }
  bool at_end() const { return row_ == end_; }
  /// Row groups that arrived damaged over the network and were intact when fetched again.
  std::uint64_t refetched() const { return refetched_; }

 private:
  void find_group();
  void load();
  void load_batch();
  bool load_again(const Error& fault);
  void lose_group(const Error& fault);
  Sample sample_of(std::uint64_t row) const;
  std::uint64_t group_end() const { return group_begin_ + table_->group_rows()[group_]; }

  std::shared_ptr<const std::string> url_;
  std::string stem_;  // of the file's name, for keys
  std::uint64_t max_bytes_;
  std::unique_ptr<RowTable> table_;
  std::optional<ParquetColumns> columns_;
  std::uint64_t row_ = 0;
  std::uint64_t end_ = 0;  // one past the last wanted row
  std::size_t group_ = 0;  // that of the row
  std::uint64_t group_begin_ = 0;
  std::unique_ptr<RowBatches> batches_;  // of the group; null: it is not open
  std::shared_ptr<const RowBatch> batch_;
  std::uint64_t batch_begin_ = 0;
  std::uint64_t refetched_ = 0;
  std::uint64_t lost_ = 0;
  bool broken_ = false;
};

}  // namespace millrace::wds::detail
