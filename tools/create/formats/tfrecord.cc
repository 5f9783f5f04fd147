// TFRecord: frames of a length, its masked CRC-32C, the data, and its masked CRC-32C. The data is a
// tf.train.Example, of whose protocol buffers only seven fields matter, all of which stand below.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/proto_fields.h"
#include "io/base/text.h"
#include "tools/create/file_ranges.h"
#include "tools/create/formats/formats.h"
#include "tools/create/record_source.h"

namespace millrace::tools {
namespace {

constexpr std::uint64_t kFrameHead = 12;
constexpr std::uint64_t kFrameTail = 4;
constexpr std::uint64_t kMaxExample = std::uint64_t{1} << 30U;
constexpr std::uint32_t kMaxFeatures = 10'000;
/// Read at once while frames are looked for, among records that are smaller than the other.
constexpr std::uint64_t kWindow = std::uint64_t{1} << 20U;
constexpr std::uint64_t kSmallRecord = std::uint64_t{1} << 14U;

template <typename Number>
Number number_at(std::string_view bytes, std::size_t at) {
  static_assert(std::endian::native == std::endian::little);
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// As TensorFlow stores a CRC-32C, so that one of data that holds CRCs is no trivial one.
std::uint32_t masked_crc(std::string_view data) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(data)));
  return (crc >> 15U | crc << 17U) + 0xa282ead8U;
}

/// Field `wanted` of the message, the last one, as protocol buffers have it.
std::string_view bytes_in(std::string_view message, std::uint64_t wanted) {
  std::string_view bytes;
  ProtoFields fields(message);
  for (ProtoFields::Field field; fields.next(field);)
    if (field.number == wanted && field.type == ProtoFields::kBytes) bytes = field.bytes;
  return bytes;
}

/// A list of one value is the value.
RecordValue unwrapped(RecordJson list) {
  if (list.empty()) return {};
  return RecordValue::of(list.size() == 1 ? RecordJson(list.front()) : std::move(list));
}

RecordValue bytes_list(const io::Bytes& owner, std::string_view list) {
  RecordValue value;
  ProtoFields fields(list);
  for (ProtoFields::Field field; fields.next(field);) {
    if (field.number != 1 || field.type != ProtoFields::kBytes) continue;
    const auto offset = static_cast<std::size_t>(field.bytes.data() - owner.text().data());
    value.files.push_back(
        {.data = owner.slice(offset, field.bytes.size()), .place = value.files.size()});
  }
  value.is_list = value.files.size() > 1;
  return value;
}

RecordValue float_list(std::string_view list) {
  RecordJson values = RecordJson::array();
  ProtoFields fields(list);
  for (ProtoFields::Field field; fields.next(field);) {
    if (field.number != 1) continue;
    if ((field.type != ProtoFields::kBytes && field.type != ProtoFields::kFourBytes) ||
        field.bytes.size() % sizeof(float) != 0)
      throw Error(ErrorCode::kCorrupt, "a list of floats that is none");
    for (std::size_t at = 0; at < field.bytes.size(); at += sizeof(float))
      values.push_back(number_at<float>(field.bytes, at));
  }
  return unwrapped(std::move(values));
}

RecordValue int64_list(std::string_view list) {
  RecordJson values = RecordJson::array();
  ProtoFields fields(list);
  for (ProtoFields::Field field; fields.next(field);) {
    if (field.number != 1) continue;
    if (field.type == ProtoFields::kVarint)
      values.push_back(static_cast<std::int64_t>(field.value));
    if (field.type != ProtoFields::kBytes) continue;
    for (ProtoFields packed(field.bytes); !packed.empty();)
      values.push_back(static_cast<std::int64_t>(packed.varint()));
  }
  return unwrapped(std::move(values));
}

RecordValue feature_value(const io::Bytes& owner, std::string_view feature) {
  ProtoFields fields(feature);
  RecordValue value;
  for (ProtoFields::Field field; fields.next(field);) {
    if (field.type != ProtoFields::kBytes) continue;
    if (field.number == 1) value = bytes_list(owner, field.bytes);
    if (field.number == 2) value = float_list(field.bytes);
    if (field.number == 3) value = int64_list(field.bytes);
  }
  return value;
}

/// Each feature's name and message, the last of a name, as a protocol buffers' map has it.
std::map<std::string_view, std::string_view> features_of(const io::Bytes& example) {
  std::string_view features;
  ProtoFields fields(example.text());
  for (ProtoFields::Field field; fields.next(field);) {
    if (field.number == 2)
      throw Error(ErrorCode::kUnsupported, "a tf.train.SequenceExample; tf.train.Example is read");
    if (field.number == 1 && field.type == ProtoFields::kBytes) features = field.bytes;
  }
  std::map<std::string_view, std::string_view> all;
  ProtoFields entries(features);
  for (ProtoFields::Field entry; entries.next(entry);) {
    if (entry.number != 1 || entry.type != ProtoFields::kBytes) continue;
    all.insert_or_assign(bytes_in(entry.bytes, 1), bytes_in(entry.bytes, 2));
    if (all.size() > kMaxFeatures)
      throw Error(ErrorCode::kExhausted, "an example of more than 10000 features");
  }
  if (all.empty()) throw Error(ErrorCode::kCorrupt, "not a tf.train.Example: it has no feature");
  return all;
}

class TfRecords final : public Records {
 public:
  explicit TfRecords(std::vector<std::string> files) : files_(std::move(files)) {
    for (std::uint32_t file = 0; file < files_.size(); ++file) {
      const std::size_t first = frames_.size();
      find_frames(file);
      if (frames_.size() > first) add_columns(first);
    }
  }

  std::uint64_t size() const override { return frames_.size(); }
  const std::vector<std::string>& columns() const override { return columns_; }
  std::vector<std::string> files() const override { return files_; }

  std::string place(std::uint64_t index) const override {
    const Frame& frame = frames_[index];
    const auto first =
        std::partition_point(frames_.begin(), frames_.end(),
                             [&](const Frame& other) { return other.file < frame.file; });
    const auto number =
        static_cast<std::uint64_t>(frames_.begin() + static_cast<std::ptrdiff_t>(index) - first);
    return fmt::format("{} record {} at {}", files_[frame.file], number, frame.offset);
  }

  std::vector<RecordValue> read(std::uint64_t index,
                                const std::vector<std::size_t>& columns) const override {
    const io::Bytes example = example_of(frames_[index]);
    const auto features = features_of(example);
    std::vector<RecordValue> values;
    values.reserve(columns.size());
    for (const std::size_t column : columns) {
      const auto found = features.find(columns_[column]);
      values.push_back(found == features.end() ? RecordValue()
                                               : feature_value(example, found->second));
    }
    if (columns.size() == columns_.size()) refuse_unknown(features);
    return values;
  }

 private:
  struct Frame {
    std::uint64_t offset;  ///< of the data
    std::uint32_t size;
    std::uint32_t file;
  };

  // Frames are found by their heads alone; of a packed file all is read.
  void find_frames(std::uint32_t file) {
    const std::string& path = files_[file];
    packings_.push_back(packing_of(path));
    const std::uint64_t end = ranges_.size(path, packings_[file]);
    io::Bytes window;
    std::uint64_t window_at = 0;
    std::uint64_t last = 0;
    for (std::uint64_t at = 0; at < end;) {
      if (at < window_at || at + kFrameHead > window_at + window.size()) {
        window_at = at;
        const std::uint64_t wanted = last < kSmallRecord ? kWindow : kFrameHead;
        window = ranges_.read(path, packings_[file], at, std::min(wanted, end - at));
      }
      const auto left = window.text().substr(at - window_at);
      const std::uint64_t size = length_of(left, path, at);
      if (size > end - at - kFrameHead || kFrameTail > end - at - kFrameHead - size)
        throw Error(ErrorCode::kTruncated, "the file ends within a record",
                    {.url = path, .offset = at});
      frames_.push_back(
          {.offset = at + kFrameHead, .size = static_cast<std::uint32_t>(size), .file = file});
      at += kFrameHead + size + kFrameTail;
      last = size;
    }
  }

  static std::uint64_t length_of(std::string_view head, const std::string& path, std::uint64_t at) {
    if (head.size() < kFrameHead)
      throw Error(ErrorCode::kTruncated, "the file ends within a record",
                  {.url = path, .offset = at});
    if (masked_crc(head.substr(0, 8)) != number_at<std::uint32_t>(head, 8))
      throw Error(ErrorCode::kCorrupt,
                  at == 0 ? "not a TFRecord file: its first length has another checksum"
                          : "a record's length has another checksum",
                  {.url = path, .offset = at});
    const auto size = number_at<std::uint64_t>(head, 0);
    if (size > kMaxExample)
      throw Error(ErrorCode::kExhausted, fmt::format("a record of {} bytes: more than 1 GiB", size),
                  {.url = path, .offset = at});
    return size;
  }

  /// A frame's length may begin as gzip does, but with another checksum.
  Packing packing_of(const std::string& path) const {
    const std::uint64_t size = ranges_.size(path, Packing::kPlain);
    const io::Bytes head = ranges_.read(path, Packing::kPlain, 0, std::min(size, kFrameHead));
    const std::string_view text = head.text();
    if (text.size() == kFrameHead &&
        masked_crc(text.substr(0, 8)) == number_at<std::uint32_t>(text, 8))
      return Packing::kPlain;
    if (text.starts_with("\x78\x9c") || text.starts_with("\x78\xda") ||
        text.starts_with("\x78\x01"))
      throw Error(ErrorCode::kUnsupported, "TFRecords packed as ZLIB; plain ones and GZIP are read",
                  {.url = path});
    return text.starts_with("\x1f\x8b") ? Packing::kPacked : Packing::kPlain;
  }

  io::Bytes example_of(const Frame& frame) const {
    const std::string& path = files_[frame.file];
    const io::Bytes data =
        ranges_.read(path, packings_[frame.file], frame.offset, frame.size + kFrameTail);
    const io::Bytes example = data.slice(0, frame.size);
    if (masked_crc(example.text()) != number_at<std::uint32_t>(data.text(), frame.size))
      throw Error(ErrorCode::kCorrupt, "the record's data has another checksum",
                  {.url = path, .offset = frame.offset});
    return example;
  }

  void add_columns(std::size_t index) {
    try {
      const io::Bytes example = example_of(frames_[index]);  // which the names are parts of
      for (const auto& [name, feature] : features_of(example))
        if (std::find(columns_.begin(), columns_.end(), name) == columns_.end())
          columns_.emplace_back(name);
    } catch (const Error& error) {
      throw Error(error.code(), place(index) + ": " + error.message(), error.where());
    }
  }

  /// Examples need not have the same features: what nobody has asked about is not left out
  /// silently.
  void refuse_unknown(const std::map<std::string_view, std::string_view>& features) const {
    for (const auto& [name, feature] : features)
      if (std::find(columns_.begin(), columns_.end(), name) == columns_.end())
        throw Error(ErrorCode::kCorrupt,
                    fmt::format("it has the feature '{}', which its file's first record does not "
                                "have: --images, --label and --columns name those wanted",
                                printable(name)));
  }

  FileRanges ranges_;
  std::vector<std::string> files_;
  std::vector<Packing> packings_;
  std::vector<Frame> frames_;
  std::vector<std::string> columns_;  ///< of each file's first record
};

}  // namespace

std::unique_ptr<SampleSource> open_tfrecord_source(const SourceRequest& request) {
  return open_record_source(std::make_unique<TfRecords>(request.paths), request);
}

}  // namespace millrace::tools
