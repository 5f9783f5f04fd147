// MDS: index.json lists shards, each with its columns; a shard is a chunk of items, an item the
// sizes of the columns whose size is not fixed, and the values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "tools/create/chunked_records.h"
#include "tools/create/formats/formats.h"
#include "tools/create/record_source.h"
#include "tools/create/record_values.h"
#include "tools/parse.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

/// What stands before an array's values, of what its encoding does not say.
class ArrayHead {
 public:
  explicit ArrayHead(const io::Bytes& data) : data_(data) {}

  std::string_view dtype() {
    constexpr std::array<std::pair<unsigned, std::string_view>, 11> kCodes = {{{8, "uint8"},
                                                                               {9, "int8"},
                                                                               {16, "uint16"},
                                                                               {17, "int16"},
                                                                               {18, "float16"},
                                                                               {32, "uint32"},
                                                                               {33, "int32"},
                                                                               {34, "float32"},
                                                                               {64, "uint64"},
                                                                               {65, "int64"},
                                                                               {66, "float64"}}};
    const unsigned code = next();
    for (const auto& [known, name] : kCodes)
      if (known == code) return name;
    throw Error(ErrorCode::kCorrupt, fmt::format("an array of type {}", code));
  }

  /// One byte has the number of axes and how wide their lengths are.
  std::vector<std::uint64_t> shape() {
    constexpr std::string_view kLengthBytes = "\1\2\4\10";
    const unsigned layout = next();
    std::vector<std::uint64_t> shape(layout >> 2U);
    const auto bytes = static_cast<unsigned>(kLengthBytes[layout & 3U]);
    for (std::uint64_t& length : shape)
      for (unsigned i = 0; i < bytes; ++i) length |= std::uint64_t{next()} << (8 * i);
    return shape;
  }

  io::Bytes values() const { return data_.slice(at_, data_.size() - at_); }

 private:
  unsigned next() {
    if (at_ >= data_.size()) throw Error(ErrorCode::kCorrupt, "an array without its type or shape");
    return static_cast<unsigned char>(data_.text()[at_++]);
  }

  const io::Bytes& data_;
  std::size_t at_ = 0;
};

/// Takes the first of `list`, up to `mark`, off it.
std::string_view take_word(std::string_view& list, char mark) {
  const std::size_t end = std::min(list.find(mark), list.size());
  const std::string_view word = list.substr(0, end);
  list.remove_prefix(std::min(end + 1, list.size()));
  return word;
}

/// "3,224,224".
std::vector<std::uint64_t> array_shape(std::string_view lengths) {
  std::vector<std::uint64_t> shape;
  while (!lengths.empty())
    shape.push_back(static_cast<std::uint64_t>(
        std::max<std::int64_t>(0, number_or_zero(take_word(lengths, ',')))));
  return shape;
}

/// ndarray, ndarray:DTYPE or ndarray:DTYPE:SHAPE; what is not given stands before the values.
RecordValue mds_array(std::string_view encoding, const io::Bytes& data) {
  static_cast<void>(take_word(encoding, ':'));
  const std::string_view word = take_word(encoding, ':');
  ArrayHead head(data);
  const std::string_view dtype = word.empty() ? head.dtype() : word;
  const auto shape = encoding.empty() ? head.shape() : array_shape(encoding);
  return RecordValue::of(npy_file(number_type(dtype), shape, head.values()));
}

/// list[pil], list[jpeg], list[png]: four bytes of zero, the number, the sizes, the pictures.
RecordValue mds_list(std::string_view element, const io::Bytes& data) {
  if (data.size() < 8) throw Error(ErrorCode::kCorrupt, "no list of pictures");
  RecordValue value = jpeg_list(data.slice(4, data.size() - 4));
  for (RecordFile& file : value.files)
    if (element == "pil") {
      const std::size_t place = file.place;
      file = pil_file(file.data);
      file.place = place;
    }
  return value;
}

/// str_int, str_float and str_decimal are numbers of any size: what JSON's numbers would round
/// stays text, and so do all decimals, as those of Parquet.
RecordJson mds_number_text(std::string_view encoding, std::string_view text) {
  const bool number = encoding != "str_decimal" && !text.empty() &&
                      text.find_first_not_of("+-.0123456789eE") == text.npos;
  if (!number) return text_value(text);
  RecordJson value = parse_json<RecordJson>(text, "number");
  return encoding == "str_int" && !value.is_number_integer() ? text_value(text) : value;
}

RecordValue mds_value(const std::string& encoding, const io::Bytes& data) {
  if (encoding == "bytes") return RecordValue::of(RecordFile{.data = data});
  if (encoding == "jpeg") return RecordValue::of(RecordFile{.data = data, .suffix = "jpg"});
  if (encoding == "png") return RecordValue::of(RecordFile{.data = data, .suffix = "png"});
  if (encoding == "pil") return RecordValue::of(pil_file(data));
  if (encoding == "str") return RecordValue::of(text_value(data.text()));
  if (encoding == "json") return RecordValue::of(parse_json<RecordJson>(data.text(), "json"));
  if (encoding == "int") return RecordValue::of(number_value({'i', 8}, data.text()));
  if (encoding.starts_with("str_")) return RecordValue::of(mds_number_text(encoding, data.text()));
  if (encoding.starts_with("ndarray")) return mds_array(encoding, data);
  if (encoding.starts_with("list[") && encoding.ends_with("]"))
    return mds_list(std::string_view(encoding).substr(5, encoding.size() - 6), data);
  if (encoding == "pkl")
    throw Error(ErrorCode::kUnsupported,
                "a pickle, which could run anything: pickles are not read");
  return RecordValue::of(number_value(number_type(encoding), data.text()));
}

const RecordJson& mds_member(const RecordJson& object, const char* name,
                             bool (RecordJson::*is)() const) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (!object.is_object() || found == object.end() || !((*found).*is)())
    throw Error(ErrorCode::kCorrupt, fmt::format("it has no proper '{}'", name));
  return *found;
}

class MdsRecords final : public ChunkedRecords {
 public:
  MdsRecords(const std::string& folder, const Log& log)
      : ChunkedRecords(folder, {.item = "sample", .value = "column"}) {
    open(find_index(folder), [this](const RecordJson& index) { read_index(index); });
    if (!unchecked_.empty())
      log.warn(fmt::format("the shards' checksums ({}) are not compared: of MDS's, sha1 is",
                           printable(unchecked_)));
  }

 private:
  RecordValue value_of(const std::string& encoding, const io::Bytes& data) const override {
    return mds_value(encoding, data);
  }

  static std::string find_index(const std::string& folder) {
    const std::string index = (fs::path(folder) / "index.json").string();
    if (fs::is_regular_file(index)) return index;
    std::string below;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      if (fs::is_regular_file(entry.path() / "index.json")) below = entry.path().string();
    throw Error(ErrorCode::kInvalidArgument,
                folder + " has no index.json" + (below.empty() ? "" : "; " + below + " has one"));
  }

  void read_index(const RecordJson& index) {
    if (json_integer<std::uint64_t>(mds_member(index, "version", &RecordJson::is_number),
                                    "version") != 2)
      throw Error(ErrorCode::kUnsupported, "MDS of another version than 2");
    for (const RecordJson& shard : mds_member(index, "shards", &RecordJson::is_array))
      add_shard(shard);
    if (is_empty()) throw Error(ErrorCode::kCorrupt, "it lists no shard");
  }

  void add_shard(const RecordJson& shard) {
    if (mds_member(shard, "format", &RecordJson::is_string) != "mds")
      throw Error(ErrorCode::kUnsupported,
                  "shards of the format " + printable(shard["format"].dump()) + "; mds is read");
    add_columns(shard);
    const RecordJson& raw = mds_member(shard, "raw_data", &RecordJson::is_object);
    ItemChunk chunk{
        .path = path_inside(folder(), mds_member(raw, "basename", &RecordJson::is_string)),
        .count = json_integer<std::uint32_t>(mds_member(shard, "samples", &RecordJson::is_number),
                                             "samples")};
    if (fs::is_regular_file(chunk.path))
      take_hashes(raw, chunk);
    else
      take_packed(shard, chunk);
    add_chunk(std::move(chunk));
  }

  void take_packed(const RecordJson& shard, ItemChunk& chunk) {
    const auto zip = shard.find("zip_data");
    if (zip == shard.end() || !zip->is_object())
      throw Error(ErrorCode::kNotFound, "no file is " + chunk.path);
    const std::string by = shard.contains("compression") ? shard["compression"].dump() : "";
    for (const char* unknown : {"\"br", "\"snappy"})
      if (by.starts_with(unknown))
        throw Error(ErrorCode::kUnsupported,
                    "shards packed by " + printable(by) + "; gz, bz2 and zstd are read");
    chunk.path = path_inside(folder(), mds_member(*zip, "basename", &RecordJson::is_string));
    chunk.packing = Packing::kPacked;
    if (!fs::is_regular_file(chunk.path))
      throw Error(ErrorCode::kNotFound, "no file is " + chunk.path);
    take_hashes(*zip, chunk);
  }

  /// Of the file that `of` describes.
  void take_hashes(const RecordJson& of, ItemChunk& chunk) {
    const auto hashes = of.find("hashes");
    if (hashes == of.end() || !hashes->is_object() || hashes->empty()) return;
    const auto sha1 = hashes->find("sha1");
    if (sha1 == hashes->end())
      unchecked_ = hashes->begin().key();
    else if (sha1->is_string())
      chunk.sha1 = sha1->get<std::string>();
  }

  void add_columns(const RecordJson& shard) {
    std::vector<std::string> names;
    std::vector<std::string> encodings;
    std::vector<std::uint64_t> sizes;
    for (const RecordJson& name : mds_member(shard, "column_names", &RecordJson::is_array))
      names.push_back(name.is_string() ? name.get<std::string>() : name.dump());
    for (const RecordJson& encoding : mds_member(shard, "column_encodings", &RecordJson::is_array))
      encodings.push_back(encoding.is_string() ? encoding.get<std::string>() : encoding.dump());
    for (const RecordJson& size : mds_member(shard, "column_sizes", &RecordJson::is_array))
      sizes.push_back(size.is_null() ? 0 : json_integer<std::uint32_t>(size, "column_sizes"));
    if (names.size() != encodings.size() || names.size() != sizes.size() || names.empty())
      throw Error(ErrorCode::kCorrupt, "columns whose names, encodings and sizes differ in number");
    auto sorted = names;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      throw Error(ErrorCode::kCorrupt, "two columns of one name");
    set_columns(std::move(names), std::move(encodings), std::move(sizes));
  }

  std::string unchecked_;  ///< a kind of checksum that a shard has instead of sha1
};

}  // namespace

std::unique_ptr<SampleSource> open_mds_source(const SourceRequest& request) {
  return open_record_source(std::make_unique<MdsRecords>(request.paths.front(), request.log),
                            request);
}

}  // namespace millrace::tools
