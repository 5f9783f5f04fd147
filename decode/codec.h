// Codec: one picture format: how it is recognised, read and written. A CodecTable lists those that
// are known: standard_codecs() has JPEG, PNG and PNM (PPM, PGM, PBM); a program adds its own.
//
//   decode::CodecTable codecs = *decode::standard_codecs();
//   codecs.add({.name = "RAW8", .suffixes = {"raw8"}, .sniff = looks_like_raw8,
//               .read_header = read_raw8_header, .decode = decode_raw8});
//   builder.field(pipeline::ImageField{
//       .codecs = std::make_shared<const decode::CodecTable>(std::move(codecs))});
//
// Everything that is known of a format follows from its entry: the members of a sample that are
// images, the pictures that `create` takes from a folder, what a message calls the content.
//
// Threads: a table is filled by one thread and then shared as const; the functions of its codecs
// are called from many threads at once, each call with a scratch of its own.
#pragma once

#include <any>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "decode/image.h"
#include "decode/limits.h"
#include "io/bytes.h"

namespace millrace::decode {

/// A rectangle of whole pixels.
struct Box {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;

  bool operator==(const Box&) const = default;
};

/// Which pixels are read as the numbers that the file stores, unscaled, and not as colours.
enum class Numbers {
  kNone,
  kPalette,  ///< a palette's indices
  kAll,      ///< and grey levels; those of more than 8 bits have two bytes, the high one first
};

/// Borrowed 8-bit pixels, (H, W, C).
struct PixelView {
  const std::uint8_t* data = nullptr;
  std::size_t stride = 0;  ///< bytes from row to row
  Box box = {};            ///< which part of the picture, divided by the scale, they are
  int channels = 0;

  const std::uint8_t* row(int y) const { return data + static_cast<std::size_t>(y) * stride; }
};

struct HeaderOptions {
  Limits limits = {};
  /// A cut file whose header is whole is no fault yet.
  bool tolerate_truncated = false;
  /// Formats that store no numbers ignore it.
  Numbers numbers = Numbers::kNone;
};

/// What a file says of itself before anything is decoded.
struct ImageHeader {
  int height = 0;
  int width = 0;
  /// As stored: 1 grey, 3 RGB, 4 RGB and alpha; 1 where the pixels stay numbers.
  int channels = 0;
  /// Exif's: 1 is upright, up to 8. Whoever decodes turns the picture; the codec does not.
  int orientation = 1;
  /// Whether decode() may be asked for scales other than 1.
  bool scalable = false;
  /// Whether pixels may differ from those that were written; masks are refused then.
  bool lossy = false;
  /// The pixels are the numbers that HeaderOptions::numbers asked for.
  bool numbers = false;
  /// What is odd about the file though nothing is lost, a text that lives for ever; empty for
  /// nearly all.
  std::string_view untidy = {};
  /// Filled by keep().
  std::array<std::byte, 32> facts = {};

  /// Keeps what the codec's own decode() wants to know again: 32 plain bytes at most.
  template <typename Facts>
  void keep(const Facts& own) {
    static_assert(std::is_trivially_copyable_v<Facts> && sizeof(Facts) <= sizeof facts);
    std::memcpy(facts.data(), &own, sizeof own);
  }
  /// What keep() was given. Requires: the same type.
  template <typename Facts>
  Facts kept() const {
    static_assert(std::is_trivially_copyable_v<Facts> && sizeof(Facts) <= sizeof facts);
    Facts own;
    std::memcpy(&own, facts.data(), sizeof own);
    return own;
  }
};

/// Which pixels decode() is asked for.
struct PixelRequest {
  /// In pixels of the picture divided by `scale`; never empty, and within it.
  Box box = {};
  /// 1; where the header is scalable 2, 4 or 8 too: both sides divided by it, rounded up.
  int scale = 1;
  /// 1, 3 or 4: what is wanted. A codec that has another number at hand gives that: it is
  /// converted.
  int channels = 3;
  /// Of a damaged file, what there is.
  bool tolerate_truncated = false;
};

/// A codec's scratch memory, kept from picture to picture. Threads: one at a time.
struct CodecScratch {
  /// Room for the pixels; what it holds is left over from any picture.
  std::vector<std::uint8_t> pixels = {};
  /// Set by decode() where it finds something odd that costs no pixel: "JPEG: ...". It comes with
  /// the header's text, or empty.
  std::string untidy = {};

  /// A codec's own state, made at its first picture, and again when another codec had its own.
  template <typename State>
  State& state() {
    auto* kept = std::any_cast<std::shared_ptr<State>>(&state_);
    if (kept != nullptr) return **kept;
    return *state_.emplace<std::shared_ptr<State>>(std::make_shared<State>());
  }

 private:
  std::any state_;
};

struct EncodeOptions {
  /// 1 to 100, where the format loses something: JPEG.
  int quality = 90;
};

/// A file, and the suffix that goes with what it holds: "pgm" for a grey PNM.
struct EncodedImage {
  std::string suffix = {};
  io::Bytes data = {};
};

/// One format. All functions are called from many threads at once.
struct Codec {
  /// For messages: "JPEG".
  std::string name = {};
  /// Under which such files are kept, in small letters, without a dot; the first names the format.
  std::vector<std::string> suffixes = {};
  /// Whether a file that begins so is of this format. Content decides, never a suffix.
  std::function<bool(std::span<const std::byte> file)> sniff = {};
  /// Reads the header of a file that sniff() knows, without believing what it claims: no
  /// allocation follows from it. Throws: Corrupt, Truncated, Unsupported, Exhausted (a limit).
  std::function<ImageHeader(std::span<const std::byte> file, const HeaderOptions&)> read_header =
      {};
  /// Gives pixels that hold at least the box asked for: in the file where they lie, or in the
  /// scratch. The view lives as long as both, until the scratch is used again.
  /// Throws: Corrupt, Truncated, Unsupported; std::bad_alloc, which is no fault of the file.
  std::function<PixelView(std::span<const std::byte> file, const ImageHeader&, const PixelRequest&,
                          CodecScratch&)>
      decode = {};
  /// Writes a picture of 1 or 3 channels. Null: the format is only read. Throws: InvalidArgument.
  std::function<EncodedImage(const Image&, const EncodeOptions&)> encode = {};
  /// Whether encode() takes 4 channels.
  bool encodes_alpha = false;
};

class CodecTable {
 public:
  /// Throws: InvalidArgument for a codec without a name, a suffix or one of sniff, read_header and
  /// decode, and for a name or a suffix that the table has.
  void add(Codec codec);

  /// The codec of a file by its content: the first that was added of those that know it; null when
  /// there is none. Lifetime: as long as the table, until add().
  const Codec* of_content(std::span<const std::byte> file) const;
  /// The codec of a suffix in small letters; null when there is none.
  const Codec* of_suffix(std::string_view suffix) const;
  /// All of them, in the order in which they were added.
  const std::vector<Codec>& codecs() const { return codecs_; }
  /// All suffixes as a field's list: "jpg;jpeg;png;ppm;pgm;pbm;pnm".
  std::string suffixes() const;
  /// The first suffix of each format that can be written: jpg, png, ppm.
  std::vector<std::string> written_formats() const;
  /// The picture as `format`, a suffix that the table has. Throws: InvalidArgument, naming those
  /// that can be written, and what the codec throws.
  EncodedImage encode(const Image& image, std::string_view format,
                      const EncodeOptions& options = {}) const;

 private:
  std::vector<Codec> codecs_;
};

/// JPEG, PNG and PNM. Never null.
const std::shared_ptr<const CodecTable>& standard_codecs();

}  // namespace millrace::decode
