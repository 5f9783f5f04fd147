#include "decode/sniff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "decode/codec.h"

namespace millrace::decode {
namespace {

using namespace std::string_view_literals;

struct Magic {
  std::size_t offset;
  std::string_view bytes;
  std::string_view name;
};

// Only formats that end up in shards by mistake or under a wrong suffix.
constexpr std::array kKnown = {
    Magic{0, "GIF8"sv, "a GIF image"},
    Magic{4, "ftypavif"sv, "an AVIF image"},
    Magic{4, "ftyphei"sv, "a HEIF image"},
    Magic{4, "ftypmif1"sv, "a HEIF image"},
    Magic{4, "ftyp"sv, "an MP4 video"},
    Magic{0, "BM"sv, "a BMP image"},
    Magic{0, "\0\0\0\x0cjP  "sv, "a JPEG 2000 image"},
    Magic{0, "\xff\x4f\xff\x51"sv, "a JPEG 2000 image"},
    Magic{0, "\xff\x0a"sv, "a JPEG XL image"},
    Magic{4, "JXL "sv, "a JPEG XL image"},
    Magic{0, "\x93NUMPY"sv, "a NumPy array"},
    Magic{0, "\x1f\x8b"sv, "gzip data"},
    Magic{0, "\x28\xb5\x2f\xfd"sv, "zstd data"},
    Magic{0, "PK\x03\x04"sv, "a zip archive"},
    Magic{257, "ustar"sv, "a tar archive"},
    Magic{0, "%PDF"sv, "a PDF document"},
    Magic{128, "DICM"sv, "a DICOM file"},
    Magic{0, "version https://git-lfs"sv, "a git-LFS pointer"},
    Magic{0, "<!DOCTYPE html"sv, "an HTML page"},
    Magic{0, "<!doctype html"sv, "an HTML page"},
    Magic{0, "<html"sv, "an HTML page"},
    Magic{0, "<svg"sv, "an SVG image"},
    Magic{0, "<?xml"sv, "an XML document"},
};

std::string_view text_of(std::span<const std::byte> data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

bool matches(std::string_view data, const Magic& magic) {
  return data.size() >= magic.offset && data.substr(magic.offset).starts_with(magic.bytes);
}

}  // namespace

std::string describe_content(std::span<const std::byte> data) {
  const std::string_view text = text_of(data);
  if (text.empty()) return "an empty field";
  if (const Codec* codec = standard_codecs()->of_content(data))
    return fmt::format("a {} image", codec->name);
  const auto known = std::find_if(kKnown.begin(), kKnown.end(),
                                  [&](const Magic& magic) { return matches(text, magic); });
  if (known != kKnown.end()) return std::string(known->name);
  std::string hex;
  for (const char c : text.substr(0, 4)) {
    hex += fmt::format("{}{:02x}", hex.empty() ? "" : " ", static_cast<unsigned char>(c));
  }
  return "unknown data (" + hex + ")";
}

}  // namespace millrace::decode
