#include "decode/detail/jpeg_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "decode/detail/jpeg_window.h"
#include "decode/detail/orientation.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr int kStartOfScan = 0xDA;
constexpr int kEndOfImage = 0xD9;
constexpr int kRestartInterval = 0xDD;
constexpr int kApp0 = 0xE0;
constexpr int kApp1 = 0xE1;  // holds Exif
constexpr int kApp15 = 0xEF;
constexpr int kComment = 0xFE;
constexpr std::size_t kLengthBytes = 2;
constexpr int kMaxComponents = 4;
constexpr int kMaxSampling = 4;

// A cursor over markers; the bytes between segments are skipped as libjpeg skips them.
class Markers {
 public:
  explicit Markers(std::span<const std::byte> data)
      : data_(reinterpret_cast<const std::uint8_t*>(data.data())), size_(data.size()) {}

  /// The next marker's code, or -1 at the end. 0xFF00 is data, 0xFFFF is fill.
  int next() {
    while (at_ + 1 < size_) {
      const auto* found =
          static_cast<const std::uint8_t*>(std::memchr(data_ + at_, 0xFF, size_ - at_ - 1));
      if (found == nullptr) break;
      at_ = static_cast<std::size_t>(found - data_) + 1;
      if (data_[at_] != 0 && data_[at_] != 0xFF) return data_[at_++];
    }
    at_ = size_;
    return -1;
  }

  /// The segment after a marker, without its length bytes; the cursor moves past it.
  std::span<const std::uint8_t> segment() {
    const std::size_t length = segment_length();
    if (length > size_ - at_) throw cut();
    if (length < kLengthBytes)
      throw Error(ErrorCode::kCorrupt, "JPEG segment shorter than its own length");
    const std::span<const std::uint8_t> body(data_ + at_ + kLengthBytes, length - kLengthBytes);
    at_ += length;
    return body;
  }

  /// Whether the segment claims to be shorter than its length bytes; if so, the cursor moves past
  /// them, as libjpeg's does.
  bool skip_impossible_length() {
    if (segment_length() >= kLengthBytes) return false;
    at_ += kLengthBytes;
    return true;
  }

  /// Moves past the segment, or to the end if it is truncated.
  void skip_segment() { at_ += std::min(segment_length(), size_ - at_); }

  static Error cut() { return {ErrorCode::kTruncated, "JPEG ends inside its headers"}; }

  /// Bytes from the file's beginning to the cursor.
  std::size_t offset() const { return at_; }

  bool ends_with_end_of_image() const {
    return size_ >= 2 && data_[size_ - 2] == 0xFF && data_[size_ - 1] == kEndOfImage;
  }

 private:
  std::size_t segment_length() const {
    return size_ - at_ < kLengthBytes ? size_ : data_[at_] * std::size_t{256} + data_[at_ + 1];
  }

  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

bool has_no_segment(int code) { return code == 0x01 || (code >= 0xD0 && code <= 0xD8); }

// Segments that no decoder needs.
bool is_comment(int code) { return code == kComment || (code >= kApp0 && code <= kApp15); }

// SOF markers are 0xC0 to 0xCF without DHT (C4), JPG (C8) and DAC (CC).
bool is_frame(int code) {
  return code >= 0xC0 && code <= 0xCF && code != 0xC4 && code != 0xC8 && code != 0xCC;
}

void check_process(int code, int precision) {
  const int process = code & 3;
  if (process == 3) throw Error(ErrorCode::kUnsupported, "lossless JPEG");
  if (code & 4) throw Error(ErrorCode::kUnsupported, "hierarchical JPEG");
  if (precision != 8) {
    throw Error(ErrorCode::kUnsupported, fmt::format("{}-bit JPEG", precision));
  }
}

struct Frame {
  int width = 0;
  int height = 0;
  int components = 0;
  bool progressive = false;
  bool arithmetic = false;
  const std::uint8_t* size = nullptr;  ///< the height's bytes
  int max_horizontal = 1;              ///< sampling factors
  int max_vertical = 1;
  int block_rows = 1;
};

void parse_sampling(std::span<const std::uint8_t> body, Frame& frame) {
  const auto components = static_cast<std::size_t>(frame.components);
  if (body.size() != 6 + 3 * components) return;
  if (components == 1) {  // an MCU is one block, whatever the factors
    frame.block_rows = body[7] & 15;
    return;
  }
  for (std::size_t i = 0; i < components; ++i) {
    const int factors = body[6 + 3 * i + 1];
    frame.max_horizontal = std::max(frame.max_horizontal, factors >> 4);
    frame.max_vertical = std::max(frame.max_vertical, factors & 15);
  }
}

Frame parse_frame(int code, std::span<const std::uint8_t> body, const Limits& limits) {
  if (body.size() < 6) throw Error(ErrorCode::kCorrupt, "JPEG frame header too short");
  check_process(code, body[0]);
  Frame frame{.width = body[3] * 256 + body[4],
              .height = body[1] * 256 + body[2],
              .components = body[5],
              .progressive = (code & 3) == 2,
              .arithmetic = code > 0xC8,
              .size = body.data() + 1};
  parse_sampling(body, frame);
  if (frame.height == 0) {
    throw Error(ErrorCode::kUnsupported, "JPEG whose height follows its data (DNL)");
  }
  if (frame.width == 0) throw Error(ErrorCode::kCorrupt, "JPEG of width 0");
  check_pixels(frame.width, frame.height, limits);
  return frame;
}

// What libjpeg would refuse has no layout: it then says why.
RestartLayout layout_of(const Frame& frame, int interval, std::span<const std::byte> data,
                        std::size_t scan_at) {
  const bool usable = interval > 0 && !frame.arithmetic && frame.components <= kMaxComponents &&
                      frame.max_horizontal <= kMaxSampling && frame.max_vertical <= kMaxSampling &&
                      scan_at <= std::numeric_limits<std::uint32_t>::max();
  if (!usable) return {};
  const auto* begin = reinterpret_cast<const std::uint8_t*>(data.data());
  return {.size_at = static_cast<std::uint32_t>(frame.size - begin),
          .scan_at = static_cast<std::uint32_t>(scan_at),
          .interval = static_cast<std::uint16_t>(interval),
          .components = static_cast<std::uint8_t>(frame.components),
          .block_rows = static_cast<std::uint8_t>(frame.block_rows),
          .max_horizontal = static_cast<std::uint8_t>(frame.max_horizontal),
          .max_vertical = static_cast<std::uint8_t>(frame.max_vertical)};
}

// Counts the scans from the first one on, and checks for the end marker.
void check_scans(Markers& markers, const HeaderOptions& options) {
  int scans = 1;
  for (int code = markers.next(); code != kEndOfImage; code = markers.next()) {
    if (code < 0) {
      if (options.tolerate_truncated) return;
      throw Error(ErrorCode::kTruncated, "JPEG without its end marker");
    }
    if (!has_no_segment(code)) markers.skip_segment();
    if (code == kStartOfScan && ++scans > options.limits.max_scans) {
      throw Error(ErrorCode::kExhausted,
                  fmt::format("JPEG of more than {} scans", options.limits.max_scans));
    }
  }
}

}  // namespace

ImageHeader read_jpeg_header(std::span<const std::byte> data, const HeaderOptions& options) {
  Markers markers(data);
  ImageHeader header{.scalable = true, .lossy = true};
  Frame frame;
  int interval = 0;
  for (int code = markers.next(); code >= 0; code = markers.next()) {
    if (has_no_segment(code)) continue;
    if (code == kEndOfImage) break;
    if (is_comment(code) && markers.skip_impossible_length()) {
      header.untidy = "JPEG: a comment shorter than its own length";
      continue;
    }
    const auto body = markers.segment();
    if (code == kApp1) header.orientation = exif_orientation(body).value_or(header.orientation);
    if (is_frame(code)) frame = parse_frame(code, body, options.limits);
    if (code == kRestartInterval && body.size() == 2) interval = body[0] * 256 + body[1];
    if (code != kStartOfScan) continue;
    if (frame.width == 0) throw Error(ErrorCode::kCorrupt, "JPEG scan before its frame header");
    header.height = frame.height;
    header.width = frame.width;
    header.channels = frame.components == 1 ? 1 : 3;
    // A sequential frame with all components in one scan has no further scans.
    const bool single = !frame.progressive && !body.empty() && body[0] == frame.components;
    if (single) header.keep(layout_of(frame, interval, data, markers.offset()));
    if (single && markers.ends_with_end_of_image()) return header;
    check_scans(markers, options);
    return header;
  }
  throw Markers::cut();
}

}  // namespace millrace::decode::detail
