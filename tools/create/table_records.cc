#include "tools/create/table_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <list>
#include <map>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "io/base/thread_annotations.h"
#include "io/opener.h"
#include "wds/in_column.h"
#include "wds/parquet_shard.h"
#include "wds/row_table.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kKeptBytes = std::size_t{512} << 20U;

/// Runs `work`; its faults get the file's name.
template <typename Work>
auto in_file(const std::string& path, const Work& work) {
  try {
    return work();
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
}

/// All rows of a group, for the columns that were asked for.
class RowGroup {
 public:
  explicit RowGroup(const std::unique_ptr<wds::RowBatches>& batches) {
    while (auto batch = batches->next()) {
      bytes_ += batch->num_bytes();
      batches_.push_back(std::move(batch));
    }
  }
  std::size_t num_bytes() const { return bytes_; }
  wds::RowValue value(std::size_t column, std::size_t row) const {
    for (const auto& batch : batches_) {
      if (row < batch->rows()) return batch->value(column, row);
      row -= batch->rows();
    }
    throw Error(ErrorCode::kTruncated, "fewer rows than the file promises");
  }

 private:
  std::vector<std::shared_ptr<const wds::RowBatch>> batches_;
  std::size_t bytes_ = 0;
};

RecordValue record_value(wds::RowValue value) {
  if (value.files.empty() && !value.is_list)
    return RecordValue::of(parse_json<RecordJson>(value.json, "a value", {.unique_keys = false}));
  RecordValue record{.is_list = value.is_list};
  for (wds::RowFile& file : value.files)
    record.files.push_back(
        {.data = std::move(file.data), .suffix = std::move(file.suffix), .place = file.place});
  return record;
}

class TableRecords final : public Records {
 public:
  TableRecords(const std::vector<std::string>& files, TableFormat format) : files_(files) {
    for (const std::string& file : files)
      in_file(file, [&] {
        add(format == TableFormat::kStream ? wds::open_arrow_stream(file)
                                           : wds::open_parquet(opener_, file));
      });
  }

  std::uint64_t size() const override {
    return pieces_.empty() ? 0 : pieces_.back().first + pieces_.back().rows;
  }
  const std::vector<std::string>& columns() const override { return columns_; }
  std::vector<std::string> files() const override { return files_; }

  std::string place(std::uint64_t index) const override {
    const Piece& piece = piece_of(index);
    const auto same = std::find_if(pieces_.begin(), pieces_.end(),
                                   [&](const Piece& other) { return other.file == piece.file; });
    return files_[piece.file] + " row " + std::to_string(index - same->first);
  }

  bool is_binary(std::size_t column) const override {
    const wds::ColumnKind kind = tables_.front()->columns()[column].kind;
    return kind == wds::ColumnKind::kBytes || kind == wds::ColumnKind::kFile;
  }

  std::vector<std::string> class_names(std::size_t column) const override {
    return tables_.front()->columns()[column].classes;
  }

  std::vector<RecordValue> read(std::uint64_t index,
                                const std::vector<std::size_t>& columns) const override {
    const Piece& piece = piece_of(index);
    const auto group = group_of(piece, columns);
    std::vector<RecordValue> values;
    values.reserve(columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i)
      values.push_back(value_in(*group, i, index - piece.first, columns_[columns[i]]));
    return values;
  }

 private:
  /// Rows that are decoded together.
  struct Piece {
    std::size_t file = 0;
    std::size_t group = 0;
    std::uint64_t first = 0;
    std::uint64_t rows = 0;
  };
  using Key = std::pair<std::size_t, std::vector<std::size_t>>;
  struct Entry {
    Mutex loading;
    std::shared_ptr<const RowGroup> group;  ///< guarded by mutex_
  };

  void add(std::unique_ptr<wds::RowTable> table) {
    std::vector<std::string> names;
    for (const wds::RowColumn& column : table->columns()) names.push_back(column.name);
    if (tables_.empty()) columns_ = names;
    if (names != columns_)
      throw Error(ErrorCode::kUnsupported, "other columns than those of " + files_.front());
    if (!tables_.empty()) check_types(*table);
    for (std::size_t i = 0; i < table->group_rows().size(); ++i) {
      if (table->group_rows()[i] == 0) continue;
      pieces_.push_back(
          {.file = tables_.size(), .group = i, .first = size(), .rows = table->group_rows()[i]});
    }
    tables_.push_back(std::move(table));
  }

  // A number means the class that its own file says. Floats, lists and columns of nulls are all of
  // kOther: their values show whether they are as wanted.
  void check_types(const wds::RowTable& table) const {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const wds::RowColumn& first = tables_.front()->columns()[i];
      const wds::RowColumn& own = table.columns()[i];
      const bool other_kind = own.kind != first.kind && own.kind != wds::ColumnKind::kOther &&
                              first.kind != wds::ColumnKind::kOther;
      if (!other_kind && own.classes == first.classes) continue;
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("column {}: {} than in {}", printable(own.name),
                              other_kind ? "values of another kind"
                                         : "other classes (" + classes_text(own.classes) +
                                               ", not " + classes_text(first.classes) + ")",
                              files_.front()));
    }
  }

  static std::string classes_text(const std::vector<std::string>& names) {
    if (names.empty()) return "none";
    return printable(fmt::format("{}", fmt::join(names, ", ")), 200);
  }

  const Piece& piece_of(std::uint64_t index) const {
    const auto behind = std::partition_point(
        pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.first <= index; });
    return *(behind - 1);
  }

  static RecordValue value_in(const RowGroup& group, std::size_t column, std::uint64_t row,
                              const std::string& name) {
    return wds::in_column(
        name, [&] { return record_value(group.value(column, static_cast<std::size_t>(row))); });
  }

  /// Loads a piece once for all threads that want it, and keeps the latest.
  std::shared_ptr<const RowGroup> group_of(const Piece& piece,
                                           const std::vector<std::size_t>& columns) const {
    const Key key(static_cast<std::size_t>(&piece - pieces_.data()), columns);
    const std::shared_ptr<Entry> entry = entry_of(key);
    const MutexLock loading(entry->loading);
    if (auto group = look(*entry)) return group;
    auto group = in_file(files_[piece.file], [&] {
      return std::make_shared<const RowGroup>(tables_[piece.file]->read(piece.group, columns));
    });
    keep(key, entry, group);
    return group;
  }

  std::shared_ptr<Entry> entry_of(const Key& key) const {
    const MutexLock lock(mutex_);
    auto& entry = entries_[key];
    if (!entry) entry = std::make_shared<Entry>();
    return entry;
  }

  std::shared_ptr<const RowGroup> look(const Entry& entry) const {
    const MutexLock lock(mutex_);
    return entry.group;
  }

  void keep(const Key& key, const std::shared_ptr<Entry>& entry,
            const std::shared_ptr<const RowGroup>& group) const {
    const MutexLock lock(mutex_);
    entry->group = group;
    kept_.push_back(key);
    kept_bytes_ += group->num_bytes();
    while (kept_bytes_ > kKeptBytes && kept_.size() > 1) {
      kept_bytes_ -= entries_[kept_.front()]->group->num_bytes();
      entries_.erase(kept_.front());
      kept_.pop_front();
    }
  }

  io::UrlOpener opener_;
  std::vector<std::string> files_;
  std::vector<std::unique_ptr<wds::RowTable>> tables_;  ///< each file's
  std::vector<std::string> columns_;
  std::vector<Piece> pieces_;
  mutable Mutex mutex_;
  mutable std::map<Key, std::shared_ptr<Entry>> entries_ MILLRACE_GUARDED_BY(mutex_);
  mutable std::list<Key> kept_ MILLRACE_GUARDED_BY(mutex_);  ///< the oldest first
  mutable std::size_t kept_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<Records> open_table_records(const std::vector<std::string>& files,
                                            TableFormat format) {
  return std::make_unique<TableRecords>(files, format);
}

}  // namespace millrace::tools
