#include "decode/video.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "decode/detail/codecs.h"
#include "decode/detail/film_library.h"
#include "io/base/error.h"
#include "io/base/loaded_module.h"

namespace millrace::decode {
namespace {

constexpr std::int64_t kMostFilmBytes = std::int64_t{1} << 30;
constexpr double kMostFilmRate = 1000;
constexpr double kMostSeconds = 1e7;

const FilmLibrary* film_library() {
#ifdef MILLRACE_HAS_VIDEO
  static const FilmLibrary* const library = reinterpret_cast<FilmModuleEntry*>(
      module_entry({.file = "libmillrace_video.so",
                    .entry = kFilmModuleEntry,
                    .libraries = "FFmpeg's libraries",
                    .remedy = "install libavformat, libavcodec and libswscale as they were when "
                              "millrace was built"}))();
  return library;
#else
  throw Error(ErrorCode::kUnsupported,
              "this build has no FFmpeg, which reads films: install its libraries (Debian and "
              "Ubuntu: libavformat-dev, libavcodec-dev, libswscale-dev) and build again");
#endif
}

const VideoOptions& checked_film(const VideoOptions& options) {
  const auto [height, width] = options.size;
  require(
      height >= 1 && width >= 1 && height <= 8192 && width <= 8192,
      fmt::format("a film's size of {} x {}: must be from 1 x 1 to 8192 x 8192", height, width));
  const std::int64_t most = kMostFilmBytes / (std::int64_t{3} * height * width);
  require(options.frames >= 1 && options.frames <= most,
          fmt::format("{} frames of {} x {}: there must be from 1 to {}", options.frames, height,
                      width, most));
  require(
      options.rate >= 0 && options.rate <= kMostFilmRate,
      fmt::format("a film's rate of {:g}: must be from 0 to {:g}", options.rate, kMostFilmRate));
  return options;
}

std::uint64_t big_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8U | std::to_integer<unsigned>(byte);
  return value;
}

void check_end(std::uint64_t needed, std::size_t size) {
  if (needed <= size) return;
  throw Error(ErrorCode::kTruncated,
              fmt::format("a film of {} bytes ends {} bytes early", size, needed - size),
              {.offset = size});
}

/// ISO 14496-12: boxes of 32-bit size and name; 1: a 64-bit size follows; 0: to the file's end.
void check_mp4(std::span<const std::byte> film) {
  for (std::size_t at = 0; at < film.size();) {
    check_end(at + 8, film.size());
    std::uint64_t size = big_endian(film.subspan(at, 4));
    if (size == 0) return;
    if (size == 1) {
      check_end(at + 16, film.size());
      size = big_endian(film.subspan(at + 8, 8));
    }
    if (size < 8) throw Error(ErrorCode::kCorrupt, "an MP4 box without room for its name");
    check_end(size > film.size() ? size : at + size, film.size());
    at += static_cast<std::size_t>(size);
  }
}

struct EbmlNumber {
  std::uint64_t value = 0;
  std::size_t bytes = 0;
  bool is_unknown = false;  ///< all bits are set
};

/// RFC 8794: the zeros before the first bit that is set say how many bytes follow.
EbmlNumber ebml_number(std::span<const std::byte> film, std::size_t at) {
  check_end(at + 1, film.size());
  const auto first = std::to_integer<std::uint8_t>(film[at]);
  const auto bytes = static_cast<std::size_t>(std::countl_zero(first)) + 1;
  if (bytes > 8) throw Error(ErrorCode::kCorrupt, "a WebM file with a length of over 8 bytes");
  check_end(at + bytes, film.size());
  const std::uint64_t most = (std::uint64_t{1} << 7U * bytes) - 1;
  const std::uint64_t value = big_endian(film.subspan(at, bytes)) & most;
  return {.value = value, .bytes = bytes, .is_unknown = value == most};
}

/// A header, then the segment with everything else, which may have no length.
void check_webm(std::span<const std::byte> film) {
  const EbmlNumber header = ebml_number(film, 4);
  check_end(header.value + 12, film.size());
  const std::size_t segment = 4 + header.bytes + static_cast<std::size_t>(header.value);
  check_end(segment + 5, film.size());
  const EbmlNumber length = ebml_number(film, segment + 4);
  if (!length.is_unknown) check_end(segment + 4 + length.bytes + length.value, film.size());
}

/// Throws: Unsupported for what is neither MP4 nor WebM; Truncated, Corrupt.
FilmContainer container_of(std::span<const std::byte> film) {
  if (film.size() >= 12 && detail::begins_with(film.subspan(4), "ftyp")) {
    check_mp4(film);
    return FilmContainer::kMp4;
  }
  if (!detail::begins_with(film, "\x1A\x45\xDF\xA3"))
    throw Error(ErrorCode::kUnsupported, "neither an MP4 nor a WebM file");
  check_webm(film);
  return FilmContainer::kWebm;
}

/// When what it shows is wanted, in seconds from its begin.
std::vector<double> times_of(const FilmFormat& format, const VideoOptions& options,
                             const SampleId& id) {
  const double rate = options.rate > 0 ? options.rate : format.rate;
  if (format.seconds <= 0 || rate <= 0)
    throw Error(ErrorCode::kUnsupported, format.seconds <= 0
                                             ? "a film that does not say how long it is"
                                             : "a film that does not say its rate");
  if (format.seconds > kMostSeconds || rate > kMostFilmRate)
    throw Error(ErrorCode::kExhausted,
                fmt::format("a film of {:g} s at {:g} pictures a second", format.seconds, rate));
  const std::int64_t total = std::max<std::int64_t>(std::llround(format.seconds * rate), 1);
  const std::int64_t spare = std::max<std::int64_t>(total - options.frames, 0);
  const std::int64_t first = choose_place(options.place, spare + 1, id);
  std::vector<double> times;
  for (std::int64_t i = first; i < std::min(total, first + options.frames); ++i)
    times.push_back(static_cast<double>(i) / rate);
  return times;
}

}  // namespace

VideoDecoder::VideoDecoder(const VideoOptions& options)
    : options_(checked_film(options)), library_(film_library()) {}

ArraySpec VideoDecoder::output() const {
  return {DType::kUInt8, {options_.frames, options_.size.height, options_.size.width, 3}};
}

std::int64_t VideoDecoder::decode(const io::Bytes& encoded, const SampleId& id,
                                  std::span<std::byte> slot) const {
  const FilmContainer container = container_of(encoded.span());
  const auto film = library_->open(encoded.span(), container, options_.limits);
  const std::vector<double> times = times_of(film->format(), options_, id);
  const std::size_t filled = slot.size() / static_cast<std::size_t>(options_.frames) * times.size();
  film->read(times, options_.size, slot.first(filled));
  std::memset(slot.data() + filled, 0, slot.size() - filled);
  return static_cast<std::int64_t>(times.size());
}

}  // namespace millrace::decode
