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
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "wds/row_table.h"

namespace millrace::wds {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostLevels = 32;
constexpr std::int64_t kBatchRows = 64;
// No column of a group, page or array of values is larger: what a file claims is not allocated.
constexpr std::int64_t kMostBytes = std::int64_t{2} << 30U;

/// Throws: what Arrow says.
void check(const arrow::Status& status) {
  if (status.ok()) return;
  if (status.IsOutOfMemory()) throw std::bad_alloc();
  const std::string message = printable(status.message(), 400);
  if (status.IsCapacityError()) throw Error(ErrorCode::kExhausted, message);
  throw Error(status.IsNotImplemented() ? ErrorCode::kUnsupported : ErrorCode::kCorrupt, message);
}

template <typename Result>
Result checked(arrow::Result<Result> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

/// Refuses what no sound file needs.
class BoundedPool final : public arrow::MemoryPool {
 public:
  static BoundedPool* instance() {
    static BoundedPool pool;
    return &pool;
  }
  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
    ARROW_RETURN_NOT_OK(bounded(size));
    return pool_->Allocate(size, alignment, out);
  }
  arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                           std::uint8_t** data) override {
    ARROW_RETURN_NOT_OK(bounded(new_size));
    return pool_->Reallocate(old_size, new_size, alignment, data);
  }
  void Free(std::uint8_t* data, std::int64_t size, std::int64_t alignment) override {
    pool_->Free(data, size, alignment);
  }
  std::int64_t bytes_allocated() const override { return pool_->bytes_allocated(); }
  std::int64_t total_bytes_allocated() const override { return pool_->total_bytes_allocated(); }
  std::int64_t num_allocations() const override { return pool_->num_allocations(); }
  std::string backend_name() const override { return pool_->backend_name(); }

 private:
  static arrow::Status bounded(std::int64_t size) {
    if (size <= kMostBytes) return arrow::Status::OK();
    return arrow::Status::CapacityError("a column of ", size, " bytes in a row group; at most ",
                                        kMostBytes, " are read");
  }
  arrow::MemoryPool* pool_ = arrow::default_memory_pool();
};

/// RowRanges for Arrow, through which no exception passes: what they throw is kept.
class RangedFile final : public arrow::io::RandomAccessFile {
 public:
  explicit RangedFile(std::shared_ptr<const RowRanges> ranges) : ranges_(std::move(ranges)) {}
  RangedFile(const RangedFile&) = delete;
  RangedFile& operator=(const RangedFile&) = delete;

  /// Runs `work`. Throws: what the ranges threw in it, or what Parquet does as Corrupt.
  template <typename Work>
  auto guarded(const Work& work) {
    try {
      return work();
    } catch (const parquet::ParquetException& error) {
      rethrow();
      throw Error(ErrorCode::kCorrupt, printable(error.what(), 400));
    } catch (const Error&) {
      rethrow();
      throw;
    }
  }

  arrow::Result<std::int64_t> GetSize() override {
    return static_cast<std::int64_t>(ranges_->size());
  }
  arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t bytes,
                                     void* out) override {
    const auto size = static_cast<std::int64_t>(ranges_->size());
    if (position < 0 || bytes < 0 || position > size || bytes > size - position)
      return arrow::Status::IOError("a range behind the file's end");
    try {
      ranges_->read(static_cast<std::uint64_t>(position),
                    {static_cast<std::byte*>(out), static_cast<std::size_t>(bytes)});
      return bytes;
    } catch (...) {
      failure_ = std::current_exception();
      return arrow::Status::IOError("the file cannot be read");
    }
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t position,
                                                       std::int64_t bytes) override {
    const auto size = static_cast<std::int64_t>(ranges_->size());
    if (position < 0 || bytes < 0 || position > size || bytes > size - position)
      return arrow::Status::IOError("a range behind the file's end");
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                          arrow::AllocateBuffer(bytes, BoundedPool::instance()));
    ARROW_RETURN_NOT_OK(ReadAt(position, bytes, buffer->mutable_data()));
    return buffer;
  }
  arrow::Result<std::int64_t> Read(std::int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const std::int64_t got, ReadAt(position_, bytes, out));
    position_ += got;
    return got;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, ReadAt(position_, bytes));
    position_ += bytes;
    return buffer;
  }
  arrow::Status Seek(std::int64_t position) override {
    position_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<std::int64_t> Tell() const override { return position_; }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }

 private:
  void rethrow() {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  std::shared_ptr<const RowRanges> ranges_;
  std::int64_t position_ = 0;
  std::exception_ptr failure_;
  bool closed_ = false;
};

/// RowValue before its JSON is text.
struct Value {
  Json json = nullptr;
  std::vector<RowFile> files = {};
  bool is_list = false;

  static Value of(RowFile file) {
    Value value;
    value.files.push_back(std::move(file));
    return value;
  }
  static Value of(Json json) { return {.json = std::move(json)}; }
  bool is_null() const { return files.empty() && json.is_null(); }
};

Value value_at(const std::shared_ptr<arrow::Array>& array, std::int64_t row, int level);

template <typename Array>
Value number_at_row(const arrow::Array& array, std::int64_t row) {
  return Value::of(Json(static_cast<const Array&>(array).Value(row)));
}

/// JSON has no word for the others: null would be a value that is missing.
Value finite(double value) {
  if (std::isfinite(value)) return Value::of(Json(value));
  throw Error(ErrorCode::kCorrupt,
              std::isnan(value) ? "NaN, which no JSON has" : "an infinite number");
}

/// Of float32 as its own type: its shortest text is shorter.
template <typename Array>
Value float_at_row(const arrow::Array& array, std::int64_t row) {
  const auto value = static_cast<const Array&>(array).Value(row);
  return std::isfinite(value) ? Value::of(Json(value)) : finite(value);
}

template <typename Array>
Value text_at_row(const arrow::Array& array, std::int64_t row) {
  const auto text = static_cast<const Array&>(array).GetView(row);
  if (!is_utf8(text)) throw Error(ErrorCode::kCorrupt, "text that is not UTF-8");
  return Value::of(Json(text));
}

/// Shares the array's memory.
template <typename Array>
Value bytes_at_row(const std::shared_ptr<arrow::Array>& array, std::int64_t row) {
  const std::string_view view = static_cast<const Array&>(*array).GetView(row);
  return Value::of(RowFile{.data = {std::as_bytes(std::span(view)), array}});
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

Value file_struct_at(const arrow::StructArray& array, std::int64_t row, int level) {
  Value file = value_at(array.GetFieldByName("bytes"), row, level);
  const Value path = value_at(array.GetFieldByName("path"), row, level);
  const std::string name = path.json.is_string() ? path.json.get<std::string>() : "";
  if (file.is_null() && !name.empty())
    throw Error(ErrorCode::kUnsupported,
                "only the path of a file, " + printable(name) + ", and not its bytes");
  if (file.files.size() == 1) file.files.front().suffix = suffix_in(name);
  return file;
}

Value struct_at(const arrow::StructArray& array, std::int64_t row, int level) {
  if (is_file_struct(array)) return file_struct_at(array, row, level);
  Json json = Json::object();
  for (int i = 0; i < array.num_fields(); ++i) {
    Value value = value_at(array.field(i), row, level);
    if (!value.files.empty()) throw Error(ErrorCode::kUnsupported, "bytes within a struct");
    json[array.struct_type()->field(i)->name()] = std::move(value.json);
  }
  return Value::of(std::move(json));
}

Value list_at(const std::shared_ptr<arrow::Array>& values, std::int64_t begin, std::int64_t end,
              int level) {
  Value list{.json = Json::array()};
  for (std::int64_t row = begin; row < end; ++row) {
    Value value = value_at(values, row, level);
    if (value.is_list) throw Error(ErrorCode::kUnsupported, "lists of lists of bytes");
    if (!value.files.empty()) {
      list.files.push_back(std::move(value.files.front()));
      list.files.back().place = static_cast<std::size_t>(row - begin);
      list.is_list = true;
    } else {
      list.json.push_back(std::move(value.json));
    }
  }
  return list;
}

template <typename Array>
Value list_at_row(const arrow::Array& array, std::int64_t row, int level) {
  const auto& lists = static_cast<const Array&>(array);
  const std::int64_t begin = lists.value_offset(row);
  return list_at(lists.values(), begin, begin + lists.value_length(row), level);
}

Value dictionary_at(const arrow::DictionaryArray& array, std::int64_t row, int level) {
  const std::int64_t index = array.GetValueIndex(row);
  if (index < 0 || index >= array.dictionary()->length())
    throw Error(ErrorCode::kCorrupt, "an index outside of its dictionary");
  return value_at(array.dictionary(), index, level);
}

Value value_at(const std::shared_ptr<arrow::Array>& array, std::int64_t row, int level) {
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
      return finite(arrow::util::Float16::FromBits(
                        static_cast<const arrow::HalfFloatArray&>(*array).Value(row))
                        .ToDouble());
    case Type::FLOAT:
      return float_at_row<arrow::FloatArray>(*array, row);
    case Type::DOUBLE:
      return float_at_row<arrow::DoubleArray>(*array, row);
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
      return Value::of(Json(checked(array->GetScalar(row))->ToString()));
  }
}

/// The names of each column's classes, from what datasets leaves in a schema.
std::map<std::string, std::vector<std::string>> class_labels(const arrow::Schema& schema) {
  std::map<std::string, std::vector<std::string>> classes;
  if (!schema.metadata() || !schema.metadata()->Contains("huggingface")) return classes;
  const std::string text = schema.metadata()->Get("huggingface").ValueOr("");
  const auto json = parse_json<Json>(text, "the schema's huggingface");
  const auto features = Json::json_pointer("/info/features");
  if (!json.contains(features) || !json[features].is_object()) return classes;
  for (const auto& [name, feature] : json[features].items()) {
    if (!feature.is_object() || !feature.contains("names") || !feature["names"].is_array())
      continue;
    std::vector<std::string> names;
    for (const Json& one : feature["names"])
      names.push_back(one.is_string() ? one.get<std::string>() : one.dump());
    classes[name] = std::move(names);
  }
  return classes;
}

bool is_file_type(const arrow::DataType& type) {
  const auto& fields = static_cast<const arrow::StructType&>(type);
  return fields.num_fields() == 2 && fields.GetFieldIndex("bytes") >= 0 &&
         fields.GetFieldIndex("path") >= 0;
}

ColumnKind kind_of(const arrow::DataType& type) {
  using arrow::Type;
  switch (type.id()) {
    case Type::STRUCT:
      return is_file_type(type) ? ColumnKind::kFile : ColumnKind::kOther;
    case Type::BINARY:
    case Type::LARGE_BINARY:
    case Type::FIXED_SIZE_BINARY:
      return ColumnKind::kBytes;
    case Type::STRING:
    case Type::LARGE_STRING:
      return ColumnKind::kText;
    case Type::DICTIONARY:
      return kind_of(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case Type::EXTENSION:
      return kind_of(*static_cast<const arrow::ExtensionType&>(type).storage_type());
    default:
      return arrow::is_integer(type.id()) || type.id() == Type::BOOL ? ColumnKind::kInteger
                                                                     : ColumnKind::kOther;
  }
}

std::vector<RowColumn> columns_of(const arrow::Schema& schema) {
  auto classes = class_labels(schema);
  std::vector<RowColumn> columns;
  for (const auto& field : schema.fields())
    columns.push_back({.name = field->name(),
                       .kind = kind_of(*field->type()),
                       .classes = std::move(classes[field->name()])});
  std::vector<std::string> names = schema.field_names();
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end())
    throw Error(ErrorCode::kUnsupported, "two columns of one name");
  return columns;
}

class ArrowBatch final : public RowBatch {
 public:
  ArrowBatch(std::vector<std::shared_ptr<arrow::Array>> arrays, std::int64_t rows)
      : arrays_(std::move(arrays)), rows_(static_cast<std::size_t>(rows)) {}

  std::size_t rows() const override { return rows_; }
  std::size_t num_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& array : arrays_) bytes += bytes_in(*array->data());
    return bytes;
  }
  RowValue value(std::size_t column, std::size_t row) const override {
    Value value = value_at(arrays_[column], static_cast<std::int64_t>(row), 0);
    return {.json = value.files.empty()
                        ? value.json.dump(-1, ' ', false, Json::error_handler_t::replace)
                        : "",
            .files = std::move(value.files),
            .is_list = value.is_list};
  }

 private:
  static std::size_t bytes_in(const arrow::ArrayData& data) {
    std::size_t bytes = 0;
    for (const auto& buffer : data.buffers)
      if (buffer) bytes += static_cast<std::size_t>(buffer->size());
    for (const auto& child : data.child_data) bytes += bytes_in(*child);
    return bytes;
  }

  std::vector<std::shared_ptr<arrow::Array>> arrays_;
  std::size_t rows_;
};

class TableBase : public RowTable {
 public:
  const std::vector<RowColumn>& columns() const override { return columns_; }
  const std::vector<std::uint64_t>& group_rows() const override { return group_rows_; }

 protected:
  void take_columns(const arrow::Schema& schema) { columns_ = columns_of(schema); }
  void add_group(std::int64_t rows) {
    if (rows < 0) throw Error(ErrorCode::kCorrupt, "a row group of less than no rows");
    group_rows_.push_back(static_cast<std::uint64_t>(rows));
  }

 private:
  std::vector<RowColumn> columns_;
  std::vector<std::uint64_t> group_rows_;
};

/// One row group's.
class ParquetBatches final : public RowBatches {
 public:
  ParquetBatches(std::shared_ptr<RangedFile> file,
                 std::unique_ptr<parquet::arrow::FileReader> reader, int group,
                 const std::vector<int>& leaves, std::vector<std::string> names)
      : file_(std::move(file)), reader_(std::move(reader)), names_(std::move(names)) {
    file_->guarded([&] { check(reader_->GetRecordBatchReader({group}, leaves, &batches_)); });
  }

  std::shared_ptr<const RowBatch> next() override {
    return file_->guarded([&]() -> std::shared_ptr<const RowBatch> {
      std::shared_ptr<arrow::RecordBatch> batch;
      check(batches_->ReadNext(&batch));
      if (!batch) return nullptr;
      std::vector<std::shared_ptr<arrow::Array>> arrays;
      for (const std::string& name : names_) {
        arrays.push_back(batch->GetColumnByName(name));
        if (!arrays.back()) throw Error(ErrorCode::kCorrupt, "no column " + printable(name));
      }
      return std::make_shared<ArrowBatch>(std::move(arrays), batch->num_rows());
    });
  }

 private:
  std::shared_ptr<RangedFile> file_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<std::string> names_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
};

class ParquetTable final : public TableBase {
 public:
  explicit ParquetTable(std::shared_ptr<const RowRanges> ranges) : ranges_(std::move(ranges)) {
    const auto file = std::make_shared<RangedFile>(ranges_);
    file->guarded([&] {
      const auto reader = open(file);
      metadata_ = reader->parquet_reader()->metadata();
      std::shared_ptr<arrow::Schema> schema;
      check(reader->GetSchema(&schema));
      take_columns(*schema);
      for (int group = 0; group < metadata_->num_row_groups(); ++group)
        add_group(metadata_->RowGroup(group)->num_rows());
    });
  }

  std::unique_ptr<RowBatches> read(std::size_t group,
                                   const std::vector<std::size_t>& wanted) const override {
    const auto file = std::make_shared<RangedFile>(ranges_);
    return file->guarded([&] {
      std::vector<std::string> names;
      for (const std::size_t column : wanted) names.push_back(columns()[column].name);
      return std::make_unique<ParquetBatches>(file, open(file), static_cast<int>(group),
                                              leaves_of(names), names);
    });
  }

 private:
  std::unique_ptr<parquet::arrow::FileReader> open(const std::shared_ptr<RangedFile>& file) const {
    parquet::ReaderProperties properties(BoundedPool::instance());
    properties.set_page_checksum_verification(true);  // of pages that have one
    parquet::ArrowReaderProperties conversion(/*use_threads=*/false);
    conversion.set_batch_size(kBatchRows);
    conversion.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(file, properties, metadata_));
    builder.memory_pool(BoundedPool::instance())->properties(conversion);
    std::unique_ptr<parquet::arrow::FileReader> reader;
    check(builder.Build(&reader));
    return reader;
  }

  std::vector<int> leaves_of(const std::vector<std::string>& names) const {
    std::vector<int> leaves;
    for (int leaf = 0; leaf < metadata_->num_columns(); ++leaf) {
      const std::string& root = metadata_->schema()->GetColumnRoot(leaf)->name();
      if (std::find(names.begin(), names.end(), root) != names.end()) leaves.push_back(leaf);
    }
    return leaves;
  }

  std::shared_ptr<const RowRanges> ranges_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
};

class OneBatch final : public RowBatches {
 public:
  explicit OneBatch(std::shared_ptr<const RowBatch> batch) : batch_(std::move(batch)) {}
  std::shared_ptr<const RowBatch> next() override { return std::exchange(batch_, nullptr); }

 private:
  std::shared_ptr<const RowBatch> batch_;
};

/// The file is mapped: batches are read when their pages are.
class StreamTable final : public TableBase {
 public:
  explicit StreamTable(const std::string& path) {
    const auto mapped = checked(arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ));
    const auto reader = checked(arrow::ipc::RecordBatchStreamReader::Open(mapped));
    take_columns(*reader->schema());
    std::int64_t before = 0;
    for (std::shared_ptr<arrow::RecordBatch> batch;;) {
      before = checked(mapped->Tell());
      check(reader->ReadNext(&batch));
      if (!batch) break;
      add_group(batch->num_rows());
      batches_.push_back(batch);
    }
    check_end(*mapped, before);
  }

  std::unique_ptr<RowBatches> read(std::size_t group,
                                   const std::vector<std::size_t>& wanted) const override {
    const auto& batch = batches_[group];
    std::vector<std::shared_ptr<arrow::Array>> arrays;
    for (const std::size_t column : wanted) {
      arrays.push_back(batch->column(static_cast<int>(column)));
      check(arrays.back()->ValidateFull());  // offsets are from outside
    }
    return std::make_unique<OneBatch>(
        std::make_shared<ArrowBatch>(std::move(arrays), batch->num_rows()));
  }

 private:
  /// Arrow takes the end of the file for the stream's, as where a writer was killed between two
  /// batches; an end that is marked is read. `before`: where the last read began.
  static void check_end(arrow::io::MemoryMappedFile& file, std::int64_t before) {
    const std::int64_t end = checked(file.Tell());
    const std::int64_t size = checked(file.GetSize());
    const Where where{.offset = static_cast<std::uint64_t>(end)};
    if (end == before)
      throw Error(ErrorCode::kTruncated, "the file ends without its end of stream marker", where);
    if (end != size)
      throw Error(ErrorCode::kCorrupt,
                  std::to_string(size - end) + " bytes behind the end of the stream", where);
  }

  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) RowTable* millrace_open_row_table(
    std::shared_ptr<const RowRanges> ranges, const std::string& path) {
  if (ranges) return new ParquetTable(std::move(ranges));
  return new StreamTable(path);
}

}  // namespace millrace::wds
