#include "tools/create/record_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <utility>

#include "decode/array.h"
#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/sha1.h"
#include "io/base/text.h"
#include "io/local_file.h"
#include "io/opener.h"
#include "tools/create/local_file.h"

namespace millrace::tools {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kMaxIndexBytes = std::size_t{1} << 30U;
constexpr std::uint64_t kOffsetBytes = 4;

[[noreturn]] void corrupt_value(const std::string& message) {
  throw Error(ErrorCode::kCorrupt, message);
}

template <typename Number>
Number loaded(std::string_view bytes) {
  Number number{};
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

RecordJson signed_value(std::string_view bytes) {
  switch (bytes.size()) {
    case 1:
      return loaded<std::int8_t>(bytes);
    case 2:
      return loaded<std::int16_t>(bytes);
    case 4:
      return loaded<std::int32_t>(bytes);
    default:
      return loaded<std::int64_t>(bytes);
  }
}

RecordJson unsigned_value(std::string_view bytes) {
  switch (bytes.size()) {
    case 1:
      return loaded<std::uint8_t>(bytes);
    case 2:
      return loaded<std::uint16_t>(bytes);
    case 4:
      return loaded<std::uint32_t>(bytes);
    default:
      return loaded<std::uint64_t>(bytes);
  }
}

RecordJson float_value(std::string_view bytes) {
  switch (bytes.size()) {
    case 2:
      return static_cast<double>(decode::from_float16(loaded<std::uint16_t>(bytes)));
    case 4:
      return loaded<float>(bytes);
    default:
      return loaded<double>(bytes);
  }
}

io::Bytes widened(const io::Bytes& bfloats) {
  std::vector<std::byte> wide(bfloats.size() * 2);
  for (std::size_t i = 0; i + 1 < bfloats.size(); i += 2)
    std::memcpy(wide.data() + 2 * i + 2, bfloats.data() + i, 2);
  return io::Bytes::take(std::move(wide));
}

std::uint64_t number_of_values(const std::vector<std::uint64_t>& shape) {
  std::uint64_t values = 1;
  for (const std::uint64_t size : shape) {
    if (size != 0 && values > (std::uint64_t{1} << 48U) / size)
      corrupt_value("an array of too many values");
    values *= size;
  }
  return values;
}

/// NumPy's format 1.0: the head is padded so that the values begin at a multiple of 64.
std::string npy_head(const NumberType& type, const std::vector<std::uint64_t>& shape) {
  const std::string order = type.bytes == 1 ? "|" : "<";
  std::string head =
      fmt::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({}{}), }}", order,
                  type.kind, type.bytes, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t kBefore = 10;
  head.append(63 - (kBefore + head.size()) % 64, ' ');
  head += '\n';
  const auto size = static_cast<std::uint16_t>(head.size());
  return std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(size & 0xFFU) +
         static_cast<char>(size >> 8U) + head;
}

struct PilMode {
  std::string_view name;
  int channels;
  int kept;  ///< of these channels
};
constexpr std::array<PilMode, 4> kPilModes = {
    {{"L", 1, 1}, {"LA", 2, 1}, {"RGB", 3, 3}, {"RGBA", 4, 4}}};

/// One bit per pixel, the highest first, rows in whole bytes.
io::Bytes unpacked_bits(std::string_view bits, std::uint64_t width, std::uint64_t height) {
  const std::uint64_t stride = (width + 7) / 8;
  if (bits.size() != stride * height) corrupt_value("pixels of another size than the picture's");
  std::vector<std::byte> levels(width * height);
  for (std::uint64_t y = 0; y < height; ++y)
    for (std::uint64_t x = 0; x < width; ++x) {
      const auto byte = static_cast<unsigned char>(bits[y * stride + x / 8]);
      levels[y * width + x] = std::byte((byte >> (7 - x % 8) & 1U) != 0 ? 255 : 0);
    }
  return io::Bytes::take(std::move(levels));
}

}  // namespace

NumberType number_type(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, NumberType>, 13> kTypes = {
      {{"uint8", {'u', 1}},
       {"uint16", {'u', 2}},
       {"uint32", {'u', 4}},
       {"uint64", {'u', 8}},
       {"int8", {'i', 1}},
       {"int16", {'i', 2}},
       {"int32", {'i', 4}},
       {"int64", {'i', 8}},
       {"float16", {'f', 2}},
       {"float32", {'f', 4}},
       {"float64", {'f', 8}},
       {"bool", {'b', 1}},
       {"bfloat16", {'B', 2}}}};
  for (const auto& [known, type] : kTypes)
    if (known == name) return type;
  throw Error(ErrorCode::kUnsupported, "numbers of type '" + printable(name) + "'");
}

RecordJson number_value(const NumberType& type, std::string_view bytes) {
  if (bytes.size() != type.bytes)
    corrupt_value(fmt::format("a number of {} bytes in {}", type.bytes, bytes.size()));
  if (type.kind == 'b') return bytes.front() != 0;
  if (type.kind == 'i') return signed_value(bytes);
  return type.kind == 'u' ? unsigned_value(bytes) : float_value(bytes);
}

RecordFile npy_file(const NumberType& type, const std::vector<std::uint64_t>& shape,
                    const io::Bytes& values) {
  constexpr std::size_t kMostAxes = 64;
  if (shape.size() > kMostAxes) corrupt_value("an array of more than 64 axes");
  const std::uint64_t wanted = number_of_values(shape) * type.bytes;
  if (values.size() != wanted)
    corrupt_value(fmt::format("an array of {} bytes in {}", wanted, values.size()));
  if (type.kind == 'B') return npy_file({'f', 4}, shape, widened(values));
  std::string file = npy_head(type, shape);
  file += values.text();
  return {.data = io::Bytes::copy_of(file), .suffix = "npy"};
}

RecordFile pil_file(const io::Bytes& data) {
  constexpr std::size_t kHead = 12;
  const std::string_view text = data.text();
  if (text.size() < kHead || u32_at(text, 8) > text.size() - kHead)
    corrupt_value("pixels without a size");
  const std::uint64_t width = u32_at(text, 0);
  const std::uint64_t height = u32_at(text, 4);
  const std::string_view mode = text.substr(kHead, u32_at(text, 8));
  const io::Bytes pixels = data.slice(kHead + mode.size(), data.size() - kHead - mode.size());
  if (width == 0 || height == 0 || width > 65'535 || height > 65'535)
    corrupt_value(fmt::format("a picture of {} x {} pixels", width, height));
  decode::Image image{
      .height = static_cast<int>(height), .width = static_cast<int>(width), .pixels = {}};
  if (mode == "1") {
    image.channels = 1;
    image.pixels = unpacked_bits(pixels.text(), width, height);
    return {.pixels = std::move(image)};
  }
  const auto known = std::find_if(kPilModes.begin(), kPilModes.end(),
                                  [&](const PilMode& one) { return one.name == mode; });
  if (known == kPilModes.end())
    throw Error(ErrorCode::kUnsupported,
                "pixels of PIL's mode '" + printable(mode) + "'; 1, L, LA, RGB and RGBA are read");
  if (pixels.size() != width * height * static_cast<std::uint64_t>(known->channels))
    corrupt_value("pixels of another size than the picture's");
  image.channels = known->kept;
  image.pixels = pixels;
  if (known->kept != known->channels) {
    std::vector<std::byte> kept(width * height);
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = pixels.data()[2 * i];
    image.pixels = io::Bytes::take(std::move(kept));
  }
  return {.pixels = std::move(image)};
}

RecordValue jpeg_list(const io::Bytes& data) {
  const std::string_view text = data.text();
  if (text.size() < 4 || u32_at(text, 0) > text.size() / 4 - 1)
    corrupt_value("no list of pictures");
  const io::Bytes rest = data.slice(4, data.size() - 4);
  RecordValue value{.is_list = true};
  for (io::Bytes& part : sized_parts(rest, std::vector<std::uint64_t>(u32_at(text, 0), 0)))
    value.files.push_back({.data = std::move(part), .place = value.files.size()});
  return value;
}

RecordJson text_value(std::string_view bytes) {
  if (!is_utf8(bytes)) corrupt_value("text that is not UTF-8");
  return bytes;
}

std::uint32_t u32_at(std::string_view bytes, std::size_t at) {
  return loaded<std::uint32_t>(bytes.substr(at, 4));
}

std::vector<io::Bytes> sized_parts(const io::Bytes& item, std::span<const std::uint64_t> fixed) {
  std::vector<std::uint64_t> sizes(fixed.begin(), fixed.end());
  std::uint64_t at = 0;
  for (std::uint64_t& size : sizes) {
    if (size != 0) continue;
    if (item.size() - at < 4) corrupt_value("a sample that is shorter than its sizes");
    size = u32_at(item.text(), at);
    at += 4;
  }
  std::vector<io::Bytes> parts;
  parts.reserve(sizes.size());
  for (const std::uint64_t size : sizes) {
    if (size > item.size() - at) corrupt_value("a value that is longer than its sample");
    parts.push_back(item.slice(at, size));
    at += size;
  }
  if (at != item.size()) corrupt_value("a sample that is longer than its values");
  return parts;
}

void ItemChunk::check(const FileRanges& files) const {
  const io::Bytes head = files.read(path, packing, 0, kOffsetBytes);
  if (u32_at(head.text(), 0) != count)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} in the index, but {} in the file", counted(count, "sample"),
                            u32_at(head.text(), 0)),
                {.url = path, .offset = 0});
}

void ItemChunk::check_sha1() const {
  const auto file = io::UrlOpener().open(local_url(path));
  std::vector<std::byte> part(std::size_t{1} << 20U);
  Sha1 hash;
  for (std::size_t got = file->read(part); got > 0; got = file->read(part))
    hash.update(std::span(part).first(got));
  if (const std::string found = hash.hex(); found != sha1)
    throw Error(
        ErrorCode::kCorrupt,
        fmt::format("damaged: its SHA-1 is {}, and {} in the index", found, printable(sha1)),
        {.url = path});
}

io::Bytes ItemChunk::item(const FileRanges& files, std::uint64_t number) const {
  const std::uint64_t table = kOffsetBytes * (1 + number);
  const io::Bytes pair = files.read(path, packing, table, 2 * kOffsetBytes);
  const std::uint64_t begin = u32_at(pair.text(), 0);
  const std::uint64_t end = u32_at(pair.text(), kOffsetBytes);
  if (begin > end || begin < kOffsetBytes * (2 + count))
    throw Error(ErrorCode::kCorrupt, fmt::format("a sample from {} to {}", begin, end),
                {.url = path, .offset = table});
  return files.read(path, packing, begin, end - begin);
}

const ItemChunk& chunk_of(std::span<const ItemChunk> chunks, std::uint64_t index) {
  const auto behind = std::partition_point(
      chunks.begin(), chunks.end(), [&](const ItemChunk& chunk) { return chunk.first <= index; });
  return *(behind - 1);
}

std::string path_inside(const std::string& folder, const std::string& name) {
  const std::filesystem::path path(name);
  const bool up = std::find(path.begin(), path.end(), "..") != path.end();
  if (name.empty() || path.is_absolute() || up)
    corrupt_value("the index names the file '" + printable(name) + "', which is not in its folder");
  return (std::filesystem::path(folder) / path).string();
}

RecordJson read_index_json(const std::string& path) {
  try {
    const io::Bytes text = io::read_local_file(path, kMaxIndexBytes);
    return parse_json<RecordJson>(
        text.text(), "index",
        {.bytes = kMaxIndexBytes, .depth = 64, .memory_bytes = std::size_t{8} << 30U});
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
}

}  // namespace millrace::tools
