// Codec: how one image format is recognised, read and written. A CodecTable lists the known ones:
// standard_codecs() has JPEG, PNG, PNM (PPM, PGM, PBM), WebP and TIFF; a program can add its own.
//
//   decode::CodecTable codecs = *decode::standard_codecs();
//   codecs.add({.name = "RAW8", .suffixes = {"raw8"}, .sniff = looks_like_raw8,
//               .read_header = read_raw8_header, .decode = decode_raw8});
//   builder.field(pipeline::ImageField{
//       .codecs = std::make_shared<const decode::CodecTable>(std::move(codecs))});
//
// Everything about a format follows from its entry: which members of a sample are images, which
// files `create` takes from a folder, and what messages call the content.
//
// Threads: a table is filled by one thread and then shared as const; the functions of its codecs
// are called from many threads at once, each call with its own scratch.
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

/// Which pixels are read as the stored numbers, unscaled, instead of as colours.
enum class Numbers {
  kNone,
  kPalette,  ///< palette indices
  kAll,      ///< and grey levels; those of more than 8 bits take two bytes, big-endian
};

/// Borrowed 8-bit pixels, (H, W, C).
struct PixelView {
  const std::uint8_t* data = nullptr;
  std::size_t stride = 0;  ///< bytes from row to row
  Box box = {};            ///< which part of the picture, in pixels after scaling
  int channels = 0;

  const std::uint8_t* row(int y) const { return data + static_cast<std::size_t>(y) * stride; }
};

struct HeaderOptions {
  Limits limits = {};
  /// A truncated file with a complete header is not a fault yet.
  bool tolerate_truncated = false;
  /// Ignored by formats that store no numbers.
  Numbers numbers = Numbers::kNone;
};

/// What a file's header says, before anything is decoded.
struct ImageHeader {
  int height = 0;
  int width = 0;
  /// As stored: 1 grey, 3 RGB, 4 RGB and alpha; 1 if the pixels are numbers.
  int channels = 0;
  /// Exif's, 1 (upright) to 8. The caller of the codec rotates the picture, not the codec.
  int orientation = 1;
  /// Whether decode() supports scales other than 1.
  bool scalable = false;
  /// Whether the format is lossy; such masks are refused.
  bool lossy = false;
  /// The pixels are the numbers that HeaderOptions::numbers asked for.
  bool numbers = false;
  /// Of each level as it is stored, 1 or 2; of `numbers`, which are big-endian, too.
  int level_bytes = 1;
  /// decode() returns the file's own bytes, or does as little: it is not worth keeping.
  bool in_place = false;
  /// A harmless oddity of the file, as a text of static lifetime; empty for nearly all
  /// files.
  std::string_view untidy = {};
  /// Set by keep().
  std::array<std::byte, 32> facts = {};

  /// Stores data for the codec's own decode(): at most 32 trivially copyable bytes.
  template <typename Facts>
  void keep(const Facts& own) {
    static_assert(std::is_trivially_copyable_v<Facts> && sizeof(Facts) <= sizeof facts);
    std::memcpy(facts.data(), &own, sizeof own);
  }
  /// What keep() stored. Requires: the same type.
  template <typename Facts>
  Facts kept() const {
    static_assert(std::is_trivially_copyable_v<Facts> && sizeof(Facts) <= sizeof facts);
    Facts own;
    std::memcpy(&own, facts.data(), sizeof own);
    return own;
  }
};

/// Which pixels decode() shall return.
struct PixelRequest {
  /// In pixels after scaling; not empty, and inside the picture.
  Box box = {};
  /// 1, or also 2, 4, 8 if the header is scalable: both sides divided by it, rounded up.
  int scale = 1;
  /// 1, 3 or 4. A codec may return another number if that is easier: the caller converts
  /// it.
  int channels = 3;
  /// Return what can be decoded of a damaged file.
  bool tolerate_truncated = false;
};

/// A codec's scratch memory, reused from picture to picture. Threads: one at a time.
struct CodecScratch {
  /// Space for the pixels; its contents are left over from an earlier picture.
  std::vector<std::uint8_t> pixels = {};
  /// Set by decode() if it finds an oddity that costs no pixel: "JPEG: ...". On entry it is the
  /// header's text, or empty.
  std::string untidy = {};

  /// A codec's own state, created on first use, and again after another codec used the scratch.
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
  /// 1 to 100, for lossy formats: JPEG, WebP.
  int quality = 90;
};

/// An encoded file and the suffix that fits its content: "pgm" for a grey PNM.
struct EncodedImage {
  std::string suffix = {};
  io::Bytes data = {};
};

/// One format. All functions are called from many threads at once.
struct Codec {
  /// For messages: "JPEG".
  std::string name = {};
  /// The suffixes of such files, in lower case, without a dot; the first names the format.
  std::vector<std::string> suffixes = {};
  /// Whether the file is of this format, by its first bytes and never by its suffix.
  std::function<bool(std::span<const std::byte> file)> sniff = {};
  /// Reads the header of a file that sniff() accepted. It must not allocate by what the file
  /// claims. Throws: Corrupt, Truncated, Unsupported, Exhausted (a limit).
  std::function<ImageHeader(std::span<const std::byte> file, const HeaderOptions&)> read_header =
      {};
  /// Returns pixels that cover at least the requested box, in the file itself or in the scratch.
  /// Lifetime: as long as both, until the scratch is used again. Throws: Corrupt, Truncated,
  /// Unsupported; std::bad_alloc, which is not a fault in the file.
  std::function<PixelView(std::span<const std::byte> file, const ImageHeader&, const PixelRequest&,
                          CodecScratch&)>
      decode = {};
  /// Encodes a picture of 1 or 3 channels. Null: read-only format. Throws: InvalidArgument.
  std::function<EncodedImage(const Image&, const EncodeOptions&)> encode = {};
  /// Whether encode() accepts 4 channels.
  bool encodes_alpha = false;
};

class CodecTable {
 public:
  /// Throws: InvalidArgument for a codec without a name, suffix, sniff, read_header or decode, and
  /// for a name or suffix that the table already has.
  void add(Codec codec);

  /// The codec for a file, by its content: the first one added whose sniff() accepts it; null if
  /// there is none. Lifetime: the table's, until add().
  const Codec* of_content(std::span<const std::byte> file) const;
  /// The codec for a suffix in lower case; null if there is none.
  const Codec* of_suffix(std::string_view suffix) const;
  /// All codecs, in the order in which they were added.
  const std::vector<Codec>& codecs() const { return codecs_; }
  /// All suffixes as a field's list: "jpg;jpeg;png;ppm;pgm;pbm;pnm;webp;tif;tiff".
  std::string suffixes() const;
  /// The first suffix of each writable format: jpg, png, ppm, webp.
  std::vector<std::string> written_formats() const;
  /// Encodes the picture as `format`, a suffix in the table. Throws: InvalidArgument, naming the
  /// writable formats, and as the codec.
  EncodedImage encode(const Image& image, std::string_view format,
                      const EncodeOptions& options = {}) const;

 private:
  std::vector<Codec> codecs_;
};

/// JPEG, PNG, PNM, WebP and TIFF. Never null.
const std::shared_ptr<const CodecTable>& standard_codecs();

}  // namespace millrace::decode
