#include "tools/create/image_file.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "decode/codec.h"
#include "decode/recode.h"
#include "io/base/error.h"
#include "io/local_file.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxImageBytes = std::size_t{1} << 30;

}  // namespace

// As std::filesystem's extension(), without a path object for each of millions of files: ".hidden"
// has none, nor have "." and "..".
std::string suffix_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || name == "..") return {};
  std::string suffix(name.substr(dot + 1));
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix;
}

wds::Field recoded_field(const io::Bytes& data, const std::string& suffix,
                         const Recoding& recoding) {
  decode::refuse_deep_levels(data);
  const std::string& format = recoding.format.empty() ? suffix : recoding.format;
  const decode::Codec* codec = decode::standard_codecs()->of_suffix(format);
  // No new picture says how it is turned.
  decode::DecodeImageOptions how{.apply_orientation = recoding.upright};
  decode::Image image = decode::decode_image(data, how);
  if (image.channels == 4 && !(codec && codec->encodes_alpha)) {
    how.channels = 3;
    image = decode::decode_image(data, how);
  }
  return encode_field(resized(image, recoding.size),
                      {.format = format, .quality = recoding.quality});
}

wds::Field image_field(const std::string& path, const Recoding& recoding,
                       const std::function<void(const io::Bytes& file)>& check) {
  try {
    wds::Field field{.suffix = suffix_of(path), .data = io::read_local_file(path, kMaxImageBytes)};
    if (field.data.size() == 0) throw Error(ErrorCode::kCorrupt, "no image: the file is empty");
    if (check) check(field.data);
    return recoding.keeps() ? field : recoded_field(field.data, field.suffix, recoding);
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
}

}  // namespace millrace::tools
