#include "wds/detail/zstd_frames.h"

#include <algorithm>
#include <string>

#include "io/base/error.h"

namespace millrace::wds::detail {
namespace {

constexpr std::uint64_t kZstdMagic = 0xFD2FB528;
constexpr std::uint64_t kSkippable = 0x184D2A50;  // and the 15 values after it
constexpr std::uint64_t kChecksumBytes = 4;

bool single_segment(unsigned descriptor) { return (descriptor & 0x20U) != 0; }
bool has_checksum(unsigned descriptor) { return (descriptor & 0x04U) != 0; }

}  // namespace

void ZstdFrames::watch(std::span<const std::byte> bytes) {
  while (!bytes.empty() && part_ != Part::kForeign) {
    const auto skipped = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, bytes.size()));
    skip_ -= skipped;
    bytes = bytes.subspan(skipped);
    const std::size_t taken = std::min(bytes.size(), wanted_ - have_);
    std::copy_n(bytes.begin(), taken, held_.begin() + static_cast<std::ptrdiff_t>(have_));
    have_ += taken;
    bytes = bytes.subspan(taken);
    while (skip_ == 0 && have_ == wanted_ && part_ != Part::kForeign) arrived();
  }
}

void ZstdFrames::expect(Part part, std::size_t bytes) {
  part_ = part;
  wanted_ = bytes;
  have_ = 0;
}

void ZstdFrames::arrived() {
  switch (part_) {
    case Part::kMagic:
      return read_magic();
    case Part::kSkippableSize:
      skip_ = number(0, 4);
      return expect(Part::kMagic, 4);
    case Part::kDescriptor:
      return read_descriptor();
    case Part::kFrameHeader:
      return read_frame_header();
    case Part::kBlockHeader:
      return read_block_header();
    case Part::kForeign:
      return;
  }
}

void ZstdFrames::read_magic() {
  const std::uint64_t magic = number(0, 4);
  if (magic == kZstdMagic) return expect(Part::kDescriptor, 1);
  if ((magic & ~std::uint64_t{15}) == kSkippable) return expect(Part::kSkippableSize, 4);
  part_ = Part::kForeign;
}

void ZstdFrames::read_descriptor() {
  descriptor_ = std::to_integer<unsigned>(held_[0]);
  if (!has_checksum(descriptor_)) ++unguarded_;
  const std::size_t window_bytes = single_segment(descriptor_) ? 0 : 1;
  expect(Part::kFrameHeader, window_bytes + dictionary_bytes() + size_bytes());
}

std::size_t ZstdFrames::dictionary_bytes() const {
  constexpr std::array<std::size_t, 4> kBytes = {0, 1, 2, 4};
  return kBytes[descriptor_ & 3U];
}

std::size_t ZstdFrames::size_bytes() const {
  constexpr std::array<std::size_t, 4> kBytes = {0, 2, 4, 8};
  const std::size_t flag = descriptor_ >> 6U;
  return flag == 0 && single_segment(descriptor_) ? 1 : kBytes[flag];
}

void ZstdFrames::read_frame_header() {
  std::uint64_t window = 0;
  if (single_segment(descriptor_)) {
    window = number(dictionary_bytes(), size_bytes()) + (size_bytes() == 2 ? 256 : 0);
  } else {
    const std::uint64_t byte = number(0, 1);
    const std::uint64_t base = std::uint64_t{1} << (10 + (byte >> 3U));
    window = base + base / 8 * (byte & 7U);
  }
  if (window > max_window_)
    throw Error(ErrorCode::kExhausted, "unpacking: a zstd window of " + std::to_string(window) +
                                           " bytes is larger than the limit of " +
                                           std::to_string(max_window_));
  expect(Part::kBlockHeader, 3);
}

void ZstdFrames::read_block_header() {
  const std::uint64_t header = number(0, 3);
  const bool last = (header & 1U) != 0;
  const bool repeats_a_byte = (header >> 1U & 3U) == 1;
  skip_ = repeats_a_byte ? 1 : header >> 3U;
  if (!last) return expect(Part::kBlockHeader, 3);
  if (has_checksum(descriptor_)) skip_ += kChecksumBytes;
  expect(Part::kMagic, 4);
}

std::uint64_t ZstdFrames::number(std::size_t at, std::size_t bytes) const {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;)
    value = value << 8U | std::to_integer<std::uint64_t>(held_[at + i]);
  return value;
}

}  // namespace millrace::wds::detail
