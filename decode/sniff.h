// What bytes look like: a content type told from the first bytes, never from a file's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace millrace::decode {

/// The suffixes under which images of these formats are kept, as a field's list.
inline constexpr std::string_view kImageSuffixes = "jpg;jpeg;png;ppm;pgm;pbm;pnm";

/// Whether `suffix`, in small letters, is one of them.
bool is_image_suffix(std::string_view suffix);

enum class ImageFormat { kUnknown, kJpeg, kPng, kPnm };

/// The format that the first bytes name, if it is one that decode_image reads.
ImageFormat sniff_image(std::span<const std::byte> data);

/// For messages: "a GIF image", "an HTML page", "a git-LFS pointer", "unknown data (7b 22 61 20)".
std::string describe_content(std::span<const std::byte> data);

}  // namespace millrace::decode
