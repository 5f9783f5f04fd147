#include "decode/detail/jpeg_reader.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <new>
#include <optional>
#include <string>

#include "decode/detail/codecs.h"
#include "decode/detail/jpeg_errors.h"
#include "decode/detail/jpeg_header.h"
#include "decode/detail/jpeg_window.h"
#include "decode/detail/jpeglib.h"
#include "decode/detail/pixels.h"
#include "decode/encode.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr int kRowsPerCall = 16;
constexpr std::size_t kMaxKeptWindow = std::size_t{4} << 20;

// `message` is also the first tolerated warning.
struct Messages : JpegErrors {
  bool tolerant = false;
  bool strict = false;  // any warning ends the attempt, but for one of a window's filler
  bool met_filler = false;
  bool warned = false;
  bool lost_data = false;  // one of them meant damage
};

bool is_restart_marker(int code) { return code >= 0xD0 && code <= 0xD7; }

// Whether a warning means that the file is badly written but no pixel is lost. All others mean that
// libjpeg continued with invented data: JWRN_HIT_MARKER, JWRN_JPEG_EOF, JWRN_MUST_RESYNC, the bad
// codes, JWRN_BOGUS_PROGRESSION.
bool is_untidiness(const jpeg_error_mgr& warning) {
  switch (warning.msg_code) {
    case JWRN_EXTRANEOUS_DATA:
      // Data left before a restart marker should have been blocks of the interval that ends
      // there.
      return !is_restart_marker(warning.msg_parm.i[1]);
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:  // baseline files with zeros for their spectral selection
      return true;
    default:
      return false;
  }
}

// Whether a window's segments were decoded to their ends: see kFillerBytes.
bool is_filler(const jpeg_error_mgr& warning) {
  return warning.msg_code == JWRN_EXTRANEOUS_DATA && warning.msg_parm.i[0] == kFillerBytes &&
         is_restart_marker(warning.msg_parm.i[1]);
}

// Level -1 is a warning.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  auto* errors = static_cast<Messages*>(reinterpret_cast<JpegErrors*>(info->err));
  if (errors->strict && !errors->met_filler && is_filler(errors->base)) {
    errors->met_filler = true;
    return;
  }
  const bool damage = !is_untidiness(errors->base);
  if (errors->strict || (damage && !errors->tolerant)) leave(info);
  errors->lost_data = errors->lost_data || damage;
  if (!errors->warned) errors->base.format_message(info, errors->message.data());
  errors->warned = true;
}

// (C, M, Y, K) to (R, G, B) in place. The values are inverted, as Adobe and all others write them.
void cmyk_to_rgb(std::uint8_t* row, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* in = row + 4 * i;
    const int black = in[3];
    std::uint8_t* out = row + 3 * i;
    for (int c = 0; c < 3; ++c) {
      const int product = in[c] * black + 128;
      out[c] = static_cast<std::uint8_t>((product + (product >> 8)) >> 8);  // / 255, rounded
    }
  }
}

}  // namespace

struct JpegReader::State {
  jpeg_decompress_struct info = {};
  Messages errors = {};

  State() {
    info.err = errors.attach();
    errors.base.emit_message = on_message;
    if (!guarded([this] { jpeg_create_decompress(&info); })) throw std::bad_alloc();
  }
  ~State() { jpeg_destroy_decompress(&info); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Runs `call`, which holds no C++ object that needs a destructor: libjpeg's errors jump over it.
  template <typename Call>
  bool guarded(Call call) {
    if (setjmp(errors.frame) != 0) return false;
    call();
    return true;
  }

  enum class Warnings { kTolerated, kDamage, kDoubt };

  void begin(Warnings warnings);
  void read_header(std::span<const std::byte> data);
  void start(const PixelRequest& request);
  bool smooths_blocks() const;
  bool crops_badly() const;
  void check_size(const ImageHeader& header);
  void crop(Box& box);
  void read_rows(std::uint8_t* out, std::size_t stride, const Box& box);
  std::size_t row_bytes(const Box& box) const;
  std::uint8_t* room_for(const Box& box, std::vector<std::uint8_t>& buffer) const;
  PixelView take(std::uint8_t* out, const Box& box);
  PixelView read_all(std::span<const std::byte> data, const ImageHeader& header,
                     const PixelRequest& request, std::vector<std::uint8_t>& buffer);
  std::optional<PixelView> read_window(std::span<const std::byte> data, const ImageHeader& header,
                                       const PixelRequest& request,
                                       std::vector<std::uint8_t>& buffer);
  bool ends_cleanly(const RestartWindow& window, int scale, std::uint8_t* spare);
  void trim();
  [[noreturn]] void fail();

  std::vector<std::uint8_t> window_file;
  bool read_segments = false;
};

void JpegReader::State::begin(Warnings warnings) {
  jpeg_abort_decompress(&info);  // the last image may have been abandoned for lack of memory
  errors.tolerant = warnings == Warnings::kTolerated;
  errors.strict = warnings == Warnings::kDoubt;
  errors.met_filler = false;
  errors.warned = false;
  errors.lost_data = false;
}

void JpegReader::State::fail() {
  jpeg_abort_decompress(&info);
  errors.raise();
}

void JpegReader::State::read_header(std::span<const std::byte> data) {
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(data.data()), data.size());
  jpeg_read_header(&info, TRUE);
}

void JpegReader::State::start(const PixelRequest& request) {
  const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = inks ? JCS_CMYK : request.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  info.scale_num = 1;
  info.scale_denom = static_cast<unsigned>(request.scale);
  jpeg_start_decompress(&info);
}

void JpegReader::State::check_size(const ImageHeader& header) {
  if (info.image_width == static_cast<JDIMENSION>(header.width) &&
      info.image_height == static_cast<JDIMENSION>(header.height)) {
    return;
  }
  jpeg_abort_decompress(&info);
  throw Error(ErrorCode::kCorrupt, "JPEG: its headers contradict each other");
}

// If scans of a progressive file are missing or truncated, libjpeg estimates them from neighbouring
// blocks, and does so differently near the edges of a region.
bool JpegReader::State::smooths_blocks() const {
  if (info.progressive_mode == FALSE || info.coef_bits == nullptr) return false;
  if (errors.lost_data) return true;
  const int* bits = info.coef_bits[0];  // 0 if all bits of a coefficient are present
  return std::any_of(bits, bits + std::ptrdiff_t{info.num_components} * DCTSIZE2,
                     [](int left) { return left != 0; });
}

// Of 4 × 2 and 2 × 4 sampling at reduced size, libjpeg-turbo 2.1 makes chroma by a larger transform
// and by smooth upsampling, and gives a region of it values that depend on what its memory held.
bool JpegReader::State::crops_badly() const {
  return info.scale_denom > 1 && info.num_components > 1 &&
         info.max_h_samp_factor * info.max_v_samp_factor == DCTSIZE;
}

// Widens the box to what libjpeg can crop. Smooth upsampling uses a neighbour on either side: with
// two more columns the box is exact up to its edges.
void JpegReader::State::crop(Box& box) {
  const int end = std::min(box.x + box.width + 2, static_cast<int>(info.output_width));
  auto left = static_cast<JDIMENSION>(std::max(box.x - 2, 0));
  auto width = static_cast<JDIMENSION>(end) - left;
  if (width < info.output_width) jpeg_crop_scanline(&info, &left, &width);
  box.x = static_cast<int>(left);
  box.width = static_cast<int>(width);
}

void JpegReader::State::read_rows(std::uint8_t* out, std::size_t stride, const Box& box) {
  if (box.y > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(box.y));
  std::array<JSAMPROW, kRowsPerCall> rows;
  for (int done = 0; done < box.height;) {
    const int count = std::min(box.height - done, kRowsPerCall);
    for (int i = 0; i < count; ++i) {
      rows[static_cast<std::size_t>(i)] = out + static_cast<std::size_t>(done + i) * stride;
    }
    done +=
        static_cast<int>(jpeg_read_scanlines(&info, rows.data(), static_cast<JDIMENSION>(count)));
  }
}

std::size_t JpegReader::State::row_bytes(const Box& box) const {
  return static_cast<std::size_t>(box.width) * static_cast<std::size_t>(info.output_components);
}

// The box's rows, and one more for ends_cleanly().
std::uint8_t* JpegReader::State::room_for(const Box& box, std::vector<std::uint8_t>& buffer) const {
  return reserve_pixels(buffer, row_bytes(box) * (static_cast<std::size_t>(box.height) + 1));
}

PixelView JpegReader::State::take(std::uint8_t* out, const Box& box) {
  const bool inks = info.output_components == 4;
  const std::size_t stride = row_bytes(box);
  jpeg_abort_decompress(&info);
  for (int y = 0; inks && y < box.height; ++y) {
    cmyk_to_rgb(out + static_cast<std::size_t>(y) * stride, static_cast<std::size_t>(box.width));
  }
  return {.data = out, .stride = stride, .box = box, .channels = inks ? 3 : info.output_components};
}

PixelView JpegReader::State::read_all(std::span<const std::byte> data, const ImageHeader& header,
                                      const PixelRequest& request,
                                      std::vector<std::uint8_t>& buffer) {
  begin(request.tolerate_truncated ? Warnings::kTolerated : Warnings::kDamage);
  if (!guarded([&] { read_header(data); })) fail();
  check_size(header);
  if (!guarded([&] { start(request); })) fail();
  Box box = request.box;
  if (smooths_blocks() || crops_badly())
    box = {0, 0, static_cast<int>(info.output_width), static_cast<int>(info.output_height)};
  if (!guarded([&] { crop(box); })) fail();
  std::uint8_t* out = room_for(box, buffer);
  const std::size_t stride = row_bytes(box);
  if (!guarded([&] { read_rows(out, stride, box); })) fail();
  return take(out, box);
}

// Whether nothing is left of the window's segments. The row behind them has no data: libjpeg meets
// the end of the file in it, after the filler.
bool JpegReader::State::ends_cleanly(const RestartWindow& window, int scale, std::uint8_t* spare) {
  if (window.has_end_row) {
    const auto end_row = static_cast<JDIMENSION>(window.box.height / scale);
    const bool went_on = guarded([&] {
      if (info.output_scanline < end_row)
        jpeg_skip_scanlines(&info, end_row - info.output_scanline);
      JSAMPROW row = spare;
      jpeg_read_scanlines(&info, &row, 1);
    });
    if (went_on || errors.code != JWRN_HIT_MARKER) return false;
  }
  return errors.met_filler == (window.has_filler && (window.has_end_row || window.size() > 1));
}

// Nullopt: there is no window to read alone, or libjpeg has something to say of its file. What it
// would say of the whole one may differ, so that is then read.
std::optional<PixelView> JpegReader::State::read_window(std::span<const std::byte> data,
                                                        const ImageHeader& header,
                                                        const PixelRequest& request,
                                                        std::vector<std::uint8_t>& buffer) {
  if (request.tolerate_truncated) return {};  // what is untidy is reported of the whole file
  const auto window = choose_window(header, request);
  if (!window || !copy_window(data, header, *window, window_file)) return {};
  begin(Warnings::kDoubt);
  if (!guarded([&] { read_header(std::as_bytes(std::span(window_file))); })) return {};
  const bool as_made = info.image_width == static_cast<JDIMENSION>(window->box.width) &&
                       info.image_height == static_cast<JDIMENSION>(window->file_height());
  if (!as_made || !guarded([&] { start(request); }) || crops_badly()) return {};
  const int left = window->box.x / request.scale;
  const int top = window->box.y / request.scale;
  Box box = request.box;
  box.x -= left;
  box.y -= top;
  if (!guarded([&] { crop(box); })) return {};
  std::uint8_t* out = room_for(box, buffer);
  const std::size_t stride = row_bytes(box);
  if (!guarded([&] { read_rows(out, stride, box); })) return {};
  std::uint8_t* spare = out + stride * static_cast<std::size_t>(box.height);
  if (!ends_cleanly(*window, request.scale, spare)) return {};
  PixelView view = take(out, box);
  view.box.x += left;
  view.box.y += top;
  return view;
}

// A huge window's file is not kept.
void JpegReader::State::trim() {
  if (window_file.capacity() > kMaxKeptWindow) window_file = {};
}

JpegReader::JpegReader() : state_(std::make_unique<State>()) {}
JpegReader::~JpegReader() = default;

PixelView JpegReader::read(std::span<const std::byte> data, const ImageHeader& header,
                           const PixelRequest& request, std::vector<std::uint8_t>& buffer) {
  const auto view = state_->read_window(data, header, request, buffer);
  state_->trim();
  state_->read_segments = view.has_value();
  return view ? *view : state_->read_all(data, header, request, buffer);
}

bool JpegReader::read_segments() const { return state_->read_segments; }

std::string_view JpegReader::untidy() const {
  return state_->errors.warned ? state_->errors.message.data() : std::string_view();
}

namespace {

PixelView decode_jpeg(std::span<const std::byte> data, const ImageHeader& header,
                      const PixelRequest& request, CodecScratch& scratch) {
  auto& reader = scratch.state<JpegReader>();
  const PixelView view = reader.read(data, header, request, scratch.pixels);
  const std::string_view warning = reader.untidy();
  if (!warning.empty()) scratch.untidy.assign("JPEG: ").append(warning);
  return view;
}

}  // namespace

Codec jpeg_codec() {
  return {
      .name = "JPEG",
      .suffixes = {"jpg", "jpeg"},
      .sniff = [](std::span<const std::byte> file) { return begins_with(file, "\xff\xd8\xff"); },
      .read_header = read_jpeg_header,
      .decode = decode_jpeg,
      .encode =
          [](const Image& image, const EncodeOptions& options) {
            return EncodedImage{"jpg", encode_jpeg(image, {.quality = options.quality})};
          }};
}

}  // namespace millrace::decode::detail
