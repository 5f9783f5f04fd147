#include <algorithm>
#include <cstring>
#include <string_view>

#include "decode/detail/png_reader.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr std::size_t kSignatureSize = 8;
constexpr std::size_t kChunkOverhead = 12;  // length, type, CRC
constexpr std::size_t kIhdrSize = 13;
constexpr int kPaletteType = 3;
constexpr int kColourBit = 2;

struct Chunk {
  std::string_view type;
  const std::uint8_t* body;
  std::size_t size;
};

std::uint32_t big_endian(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}

Error cut() { return {ErrorCode::kTruncated, "PNG is cut"}; }

Chunk chunk_at(std::span<const std::byte> data, std::size_t offset) {
  if (data.size() - offset < kChunkOverhead) throw cut();
  const auto* p = reinterpret_cast<const std::uint8_t*>(data.data()) + offset;
  const std::uint32_t size = big_endian(p);
  if (size > 0x7FFFFFFFU) throw Error(ErrorCode::kCorrupt, "PNG chunk length above 2^31");
  if (data.size() - offset - kChunkOverhead < size) throw cut();
  return {{reinterpret_cast<const char*>(p) + 4, 4}, p + 8, size};
}

bool stays_numbers(int colour_type, Numbers numbers) {
  if (colour_type == kPaletteType) return numbers != Numbers::kNone;
  return numbers == Numbers::kAll && (colour_type & kColourBit) == 0;
}

std::size_t size_in_file(const Chunk& chunk) { return kChunkOverhead + chunk.size; }

// A lower-case first letter marks a chunk that the picture does not need.
bool is_ancillary(const Chunk& chunk) { return (chunk.type.front() & 0x20) != 0; }

ImageHeader parse_ihdr(const Chunk& chunk, const HeaderOptions& options) {
  if (chunk.type != "IHDR" || chunk.size != kIhdrSize) {
    throw Error(ErrorCode::kCorrupt, "PNG does not begin with its header");
  }
  const std::uint32_t width = big_endian(chunk.body);
  const std::uint32_t height = big_endian(chunk.body + 4);
  if (width == 0 || height == 0) throw Error(ErrorCode::kCorrupt, "PNG of no size");
  check_pixels(width, height, options.limits);
  const int colour_type = chunk.body[9];
  const bool alpha = (colour_type & 4) != 0;
  const bool colour = (colour_type & 3) != 0;
  const bool stays = stays_numbers(colour_type, options.numbers);
  int channels = alpha ? 4 : colour ? 3 : 1;
  if (stays) channels = 1;
  ImageHeader header{.height = static_cast<int>(height),
                     .width = static_cast<int>(width),
                     .channels = channels,
                     .numbers = stays,
                     .level_bytes = chunk.body[8] == 16 ? 2 : 1};
  header.keep(PngFacts{.interlaced = chunk.body[12] != 0});
  return header;
}

}  // namespace

ImageHeader read_png_header(std::span<const std::byte> data, const HeaderOptions& options) {
  std::size_t offset = std::min(kSignatureSize, data.size());
  Chunk chunk = chunk_at(data, offset);
  std::string_view untidy;
  while (is_ancillary(chunk)) {
    untidy = "PNG: a comment before the header";
    offset += size_in_file(chunk);
    chunk = chunk_at(data, offset);
  }
  ImageHeader header = parse_ihdr(chunk, options);
  header.untidy = untidy;
  while (chunk.type != "IEND") {
    offset += size_in_file(chunk);
    chunk = chunk_at(data, offset);
    if (chunk.type == "tRNS" && !header.numbers) header.channels = 4;
  }
  return header;
}

}  // namespace millrace::decode::detail
