// The module libmillrace_arrow.so: values of Arrow's arrays as JSON and files, by row groups and
// record batches.
#include <arrow/api.h>
#include <arrow/extension_type.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/util/float16.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "io/base/thread_annotations.h"
#include "tools/create/arrow/arrow_records.h"

namespace millrace::tools {
namespace {

constexpr int kMostLevels = 32;
constexpr std::size_t kKeptBytes = std::size_t{512} << 20U;

using Arrays = std::vector<std::shared_ptr<arrow::ChunkedArray>>;

/// Throws: what Arrow says, with the file.
void check(const arrow::Status& status, const std::string& path) {
  if (status.ok()) return;
  if (status.IsOutOfMemory()) throw std::bad_alloc();
  const ErrorCode code = status.IsNotImplemented() ? ErrorCode::kUnsupported : ErrorCode::kCorrupt;
  throw Error(code, printable(status.message(), 400), {.url = path});
}

template <typename Value>
Value checked(arrow::Result<Value> result, const std::string& path) {
  check(result.status(), path);
  return std::move(result).ValueUnsafe();
}

/// Runs `work`; Parquet's own exceptions become faults of the file.
template <typename Work>
auto guarded(const std::string& path, const Work& work) {
  try {
    return work();
  } catch (const parquet::ParquetException& error) {
    throw Error(ErrorCode::kCorrupt, printable(error.what(), 400), {.url = path});
  }
}

RecordValue value_at(const std::shared_ptr<arrow::Array>& array, std::int64_t row, int level);

template <typename Array>
RecordValue number_at_row(const arrow::Array& array, std::int64_t row) {
  return RecordValue::of(RecordJson(static_cast<const Array&>(array).Value(row)));
}

template <typename Array>
RecordValue text_at_row(const arrow::Array& array, std::int64_t row) {
  const auto text = static_cast<const Array&>(array).GetView(row);
  if (!is_utf8(text)) throw Error(ErrorCode::kCorrupt, "text that is not UTF-8");
  return RecordValue::of(RecordJson(text));
}

/// Shares the array's memory.
template <typename Array>
RecordValue bytes_at_row(const std::shared_ptr<arrow::Array>& array, std::int64_t row) {
  const std::string_view view = static_cast<const Array&>(*array).GetView(row);
  return RecordValue::of(RecordFile{.data = {std::as_bytes(std::span(view)), array}});
}

/// Lower case, behind the last dot of the name.
std::string suffix_in(std::string_view path) {
  const std::size_t dot = path.find_last_of("./");
  if (dot == path.npos || path[dot] == '/') return {};
  std::string suffix;
  for (const char c : path.substr(dot + 1)) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) return {};
    suffix += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return suffix;
}

/// Hugging Face's pictures, sounds and films: {bytes, path}.
bool is_file_struct(const arrow::StructArray& array) {
  return array.num_fields() == 2 && array.struct_type()->GetFieldIndex("bytes") >= 0 &&
         array.struct_type()->GetFieldIndex("path") >= 0;
}

RecordValue file_struct_at(const arrow::StructArray& array, std::int64_t row, int level) {
  RecordValue file = value_at(array.GetFieldByName("bytes"), row, level);
  const RecordValue path = value_at(array.GetFieldByName("path"), row, level);
  const std::string name = path.json.is_string() ? path.json.get<std::string>() : "";
  if (file.is_null() && !name.empty())
    throw Error(ErrorCode::kUnsupported,
                "only the path of a file, " + printable(name) + ", and not its bytes");
  if (file.files.size() == 1) file.files.front().suffix = suffix_in(name);
  return file;
}

RecordValue struct_at(const arrow::StructArray& array, std::int64_t row, int level) {
  if (is_file_struct(array)) return file_struct_at(array, row, level);
  RecordJson json = RecordJson::object();
  for (int i = 0; i < array.num_fields(); ++i) {
    RecordValue value = value_at(array.field(i), row, level);
    if (!value.files.empty()) throw Error(ErrorCode::kUnsupported, "bytes within a struct");
    json[array.struct_type()->field(i)->name()] = std::move(value.json);
  }
  return RecordValue::of(std::move(json));
}

RecordValue list_at(const std::shared_ptr<arrow::Array>& values, std::int64_t begin,
                    std::int64_t end, int level) {
  RecordValue list{.json = RecordJson::array()};
  for (std::int64_t row = begin; row < end; ++row) {
    RecordValue value = value_at(values, row, level);
    if (value.is_list) throw Error(ErrorCode::kUnsupported, "lists of lists of bytes");
    if (!value.files.empty()) {
      list.files.push_back(std::move(value.files.front()));
      list.is_list = true;
    } else {
      list.json.push_back(std::move(value.json));
    }
  }
  return list;
}

template <typename Array>
RecordValue list_at_row(const arrow::Array& array, std::int64_t row, int level) {
  const auto& lists = static_cast<const Array&>(array);
  const std::int64_t begin = lists.value_offset(row);
  return list_at(lists.values(), begin, begin + lists.value_length(row), level);
}

RecordValue dictionary_at(const arrow::DictionaryArray& array, std::int64_t row, int level) {
  const std::int64_t index = array.GetValueIndex(row);
  if (index < 0 || index >= array.dictionary()->length())
    throw Error(ErrorCode::kCorrupt, "an index outside of its dictionary");
  return value_at(array.dictionary(), index, level);
}

RecordValue value_at(const std::shared_ptr<arrow::Array>& array, std::int64_t row, int level) {
  using arrow::Type;
  if (level > kMostLevels) throw Error(ErrorCode::kUnsupported, "lists and structs of 32 levels");
  if (array->IsNull(row)) return {};
  const int below = level + 1;
  switch (array->type_id()) {
    case Type::NA:
      return {};
    case Type::BOOL:
      return number_at_row<arrow::BooleanArray>(*array, row);
    case Type::INT8:
      return number_at_row<arrow::Int8Array>(*array, row);
    case Type::INT16:
      return number_at_row<arrow::Int16Array>(*array, row);
    case Type::INT32:
      return number_at_row<arrow::Int32Array>(*array, row);
    case Type::INT64:
      return number_at_row<arrow::Int64Array>(*array, row);
    case Type::UINT8:
      return number_at_row<arrow::UInt8Array>(*array, row);
    case Type::UINT16:
      return number_at_row<arrow::UInt16Array>(*array, row);
    case Type::UINT32:
      return number_at_row<arrow::UInt32Array>(*array, row);
    case Type::UINT64:
      return number_at_row<arrow::UInt64Array>(*array, row);
    case Type::HALF_FLOAT:
      return RecordValue::of(
          RecordJson(arrow::util::Float16::FromBits(
                         static_cast<const arrow::HalfFloatArray&>(*array).Value(row))
                         .ToDouble()));
    case Type::FLOAT:
      return number_at_row<arrow::FloatArray>(*array, row);
    case Type::DOUBLE:
      return number_at_row<arrow::DoubleArray>(*array, row);
    case Type::STRING:
      return text_at_row<arrow::StringArray>(*array, row);
    case Type::LARGE_STRING:
      return text_at_row<arrow::LargeStringArray>(*array, row);
    case Type::BINARY:
      return bytes_at_row<arrow::BinaryArray>(array, row);
    case Type::LARGE_BINARY:
      return bytes_at_row<arrow::LargeBinaryArray>(array, row);
    case Type::FIXED_SIZE_BINARY:
      return bytes_at_row<arrow::FixedSizeBinaryArray>(array, row);
    case Type::STRUCT:
      return struct_at(static_cast<const arrow::StructArray&>(*array), row, below);
    case Type::LIST:
    case Type::MAP:
      return list_at_row<arrow::ListArray>(*array, row, below);
    case Type::LARGE_LIST:
      return list_at_row<arrow::LargeListArray>(*array, row, below);
    case Type::FIXED_SIZE_LIST:
      return list_at_row<arrow::FixedSizeListArray>(*array, row, below);
    case Type::DICTIONARY:
      return dictionary_at(static_cast<const arrow::DictionaryArray&>(*array), row, below);
    case Type::EXTENSION:
      return value_at(static_cast<const arrow::ExtensionArray&>(*array).storage(), row, below);
    default:  // times, dates, decimals, ...
      return RecordValue::of(RecordJson(checked(array->GetScalar(row), "")->ToString()));
  }
}

/// The names of each column's classes, from what datasets leaves in a schema.
std::map<std::string, std::vector<std::string>> class_labels(const arrow::Schema& schema) {
  std::map<std::string, std::vector<std::string>> classes;
  if (!schema.metadata() || !schema.metadata()->Contains("huggingface")) return classes;
  const std::string text = schema.metadata()->Get("huggingface").ValueOr("");
  const auto json = parse_json<RecordJson>(text, "the schema's huggingface");
  const auto features = RecordJson::json_pointer("/info/features");
  if (!json.contains(features) || !json[features].is_object()) return classes;
  for (const auto& [name, feature] : json[features].items()) {
    if (!feature.is_object() || !feature.contains("names") || !feature["names"].is_array())
      continue;
    std::vector<std::string> names;
    for (const RecordJson& one : feature["names"])
      names.push_back(one.is_string() ? one.get<std::string>() : one.dump());
    classes[name] = std::move(names);
  }
  return classes;
}

/// Rows that are decoded together.
struct Piece {
  std::size_t file = 0;
  int number = 0;  ///< of the row group or batch in its file
  std::uint64_t first = 0;
  std::uint64_t rows = 0;
};

class ArrowRecords : public Records {
 public:
  explicit ArrowRecords(const std::vector<std::string>& files) : files_(files) {}

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

  std::vector<std::string> class_names(std::size_t column) const override {
    const auto found = classes_.find(columns_[column]);
    return found == classes_.end() ? std::vector<std::string>() : found->second;
  }

  std::vector<RecordValue> read(std::uint64_t index,
                                const std::vector<std::size_t>& columns) const override {
    const Piece& piece = piece_of(index);
    const auto arrays = arrays_of(piece, columns);
    std::vector<RecordValue> values;
    values.reserve(columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i)
      values.push_back(value_in((*arrays)[i], static_cast<std::int64_t>(index - piece.first),
                                columns_[columns[i]]));
    return values;
  }

 protected:
  virtual std::shared_ptr<const Arrays> load(const Piece& piece,
                                             const std::vector<std::size_t>& columns) const = 0;

  /// The rows of a file, whose schema must be the first one's.
  void add_file(std::size_t file, const arrow::Schema& schema,
                const std::vector<std::int64_t>& rows) {
    const std::vector<std::string> names = schema.field_names();
    if (file == 0) {
      columns_ = names;
      classes_ = class_labels(schema);
    }
    auto sorted = names;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      throw Error(ErrorCode::kUnsupported, "two columns of one name", {.url = files_[file]});
    if (names != columns_)
      throw Error(ErrorCode::kUnsupported, "other columns than those of " + files_.front(),
                  {.url = files_[file]});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] <= 0) continue;
      pieces_.push_back({.file = file,
                         .number = static_cast<int>(i),
                         .first = size(),
                         .rows = static_cast<std::uint64_t>(rows[i])});
    }
  }

  const std::string& path_of(const Piece& piece) const { return files_[piece.file]; }
  const std::string& column_name(std::size_t column) const { return columns_[column]; }

 private:
  using Key = std::pair<std::size_t, std::vector<std::size_t>>;
  struct Entry {
    Mutex loading;
    std::shared_ptr<const Arrays> arrays;  ///< guarded by mutex_
    std::size_t bytes = 0;
  };

  const Piece& piece_of(std::uint64_t index) const {
    const auto behind = std::partition_point(
        pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.first <= index; });
    return *(behind - 1);
  }

  RecordValue value_in(const std::shared_ptr<arrow::ChunkedArray>& column, std::int64_t row,
                       const std::string& name) const {
    try {
      for (const auto& chunk : column->chunks()) {
        if (row < chunk->length()) return value_at(chunk, row, 0);
        row -= chunk->length();
      }
      throw Error(ErrorCode::kTruncated, "fewer rows than the file promises");
    } catch (const Error& error) {
      throw Error(error.code(), "column " + printable(name) + ": " + error.message(),
                  error.where());
    }
  }

  /// Loads a piece once for all threads that want it, and keeps the latest.
  std::shared_ptr<const Arrays> arrays_of(const Piece& piece,
                                          const std::vector<std::size_t>& columns) const {
    const Key key(static_cast<std::size_t>(&piece - pieces_.data()), columns);
    const std::shared_ptr<Entry> entry = entry_of(key);
    const MutexLock loading(entry->loading);
    if (auto arrays = look(*entry)) return arrays;
    const std::string& path = path_of(piece);
    auto arrays = guarded(path, [&] { return load(piece, columns); });
    keep(key, entry, arrays);
    return arrays;
  }

  std::shared_ptr<Entry> entry_of(const Key& key) const {
    const MutexLock lock(mutex_);
    auto& entry = entries_[key];
    if (!entry) entry = std::make_shared<Entry>();
    return entry;
  }

  std::shared_ptr<const Arrays> look(const Entry& entry) const {
    const MutexLock lock(mutex_);
    return entry.arrays;
  }

  void keep(const Key& key, const std::shared_ptr<Entry>& entry,
            const std::shared_ptr<const Arrays>& arrays) const {
    std::size_t bytes = 0;
    for (const auto& array : *arrays)
      for (const auto& chunk : array->chunks())
        for (const auto& buffer : chunk->data()->buffers)
          if (buffer) bytes += static_cast<std::size_t>(buffer->size());
    const MutexLock lock(mutex_);
    entry->arrays = arrays;
    entry->bytes = bytes;
    kept_.push_back(key);
    kept_bytes_ += bytes;
    while (kept_bytes_ > kKeptBytes && kept_.size() > 1) {
      kept_bytes_ -= entries_[kept_.front()]->bytes;
      entries_.erase(kept_.front());
      kept_.pop_front();
    }
  }

  std::vector<std::string> files_;
  std::vector<std::string> columns_;
  std::map<std::string, std::vector<std::string>> classes_;
  std::vector<Piece> pieces_;
  mutable Mutex mutex_;
  mutable std::map<Key, std::shared_ptr<Entry>> entries_ MILLRACE_GUARDED_BY(mutex_);
  mutable std::list<Key> kept_ MILLRACE_GUARDED_BY(mutex_);  ///< the oldest first
  mutable std::size_t kept_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

class ParquetRecords final : public ArrowRecords {
 public:
  explicit ParquetRecords(const std::vector<std::string>& files) : ArrowRecords(files) {
    for (std::size_t file = 0; file < files.size(); ++file)
      guarded(files[file], [&] { add(file, files[file]); });
  }

 private:
  void add(std::size_t file, const std::string& path) {
    const auto reader = open(path, nullptr);
    metadata_.push_back(reader->parquet_reader()->metadata());
    std::shared_ptr<arrow::Schema> schema;
    check(reader->GetSchema(&schema), path);
    std::vector<std::int64_t> rows;
    for (int group = 0; group < metadata_.back()->num_row_groups(); ++group)
      rows.push_back(metadata_.back()->RowGroup(group)->num_rows());
    add_file(file, *schema, rows);
  }

  static std::unique_ptr<parquet::arrow::FileReader> open(
      const std::string& path, std::shared_ptr<parquet::FileMetaData> metadata) {
    parquet::arrow::FileReaderBuilder builder;
    const auto file = checked(arrow::io::ReadableFile::Open(path), path);
    parquet::ReaderProperties properties = parquet::default_reader_properties();
    properties.set_page_checksum_verification(true);  // of pages that have one
    check(builder.Open(file, properties, std::move(metadata)), path);
    std::unique_ptr<parquet::arrow::FileReader> reader;
    check(builder.Build(&reader), path);
    return reader;
  }

  std::shared_ptr<const Arrays> load(const Piece& piece,
                                     const std::vector<std::size_t>& columns) const override {
    const std::string& path = path_of(piece);
    const auto& metadata = metadata_[piece.file];
    const auto reader = open(path, metadata);
    std::vector<int> leaves;
    for (int leaf = 0; leaf < metadata->num_columns(); ++leaf)
      for (const std::size_t column : columns)
        if (metadata->schema()->GetColumnRoot(leaf)->name() == column_name(column))
          leaves.push_back(leaf);
    std::shared_ptr<arrow::Table> table;
    check(reader->ReadRowGroup(piece.number, leaves, &table), path);
    auto arrays = std::make_shared<Arrays>();
    for (const std::size_t column : columns) {
      arrays->push_back(table->GetColumnByName(column_name(column)));
      if (!arrays->back())
        throw Error(ErrorCode::kCorrupt, "no column " + printable(column_name(column)),
                    {.url = path});
    }
    return arrays;
  }

  std::vector<std::shared_ptr<parquet::FileMetaData>> metadata_;  ///< each file's
};

/// The files are mapped: batches are read when their pages are.
class StreamRecords final : public ArrowRecords {
 public:
  explicit StreamRecords(const std::vector<std::string>& files) : ArrowRecords(files) {
    for (std::size_t file = 0; file < files.size(); ++file) add(file, files[file]);
  }

 private:
  void add(std::size_t file, const std::string& path) {
    const auto mapped =
        checked(arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ), path);
    const auto reader = checked(arrow::ipc::RecordBatchStreamReader::Open(mapped), path);
    std::vector<std::int64_t> rows;
    auto& batches = batches_.emplace_back();
    for (std::shared_ptr<arrow::RecordBatch> batch;;) {
      check(reader->ReadNext(&batch), path);
      if (!batch) break;
      rows.push_back(batch->num_rows());
      batches.push_back(batch);
    }
    add_file(file, *reader->schema(), rows);
  }

  std::shared_ptr<const Arrays> load(const Piece& piece,
                                     const std::vector<std::size_t>& columns) const override {
    const auto& batch = batches_[piece.file][static_cast<std::size_t>(piece.number)];
    auto arrays = std::make_shared<Arrays>();
    for (const std::size_t column : columns) {
      const auto& array = batch->column(static_cast<int>(column));
      check(array->ValidateFull(), path_of(piece));  // offsets are from outside
      arrays->push_back(std::make_shared<arrow::ChunkedArray>(array));
    }
    return arrays;
  }

  std::vector<std::vector<std::shared_ptr<arrow::RecordBatch>>> batches_;  ///< each file's
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Records* millrace_open_arrow_records(
    const std::vector<std::string>& files, ArrowFormat format) {
  if (format == ArrowFormat::kParquet) return new ParquetRecords(files);
  return new StreamRecords(files);
}

}  // namespace millrace::tools
