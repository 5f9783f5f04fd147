#include "tools/create/image_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <span>

#include "decode/codec.h"
#include "io/base/error.h"
#include "tools/create/local_file.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxImageBytes = std::size_t{1} << 30;

}  // namespace

std::string suffix_of(const std::string& path) {
  std::string suffix = std::filesystem::path(path).extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix.empty() ? suffix : suffix.substr(1);
}

wds::Field recoded_field(const io::Bytes& data, const std::string& suffix,
                         const Recoding& recoding) {
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

wds::Field image_field(const std::string& path, const Recoding& recoding) {
  try {
    wds::Field field{.suffix = suffix_of(path), .data = read_local_file(path, kMaxImageBytes)};
    return recoding.keeps() ? field : recoded_field(field.data, field.suffix, recoding);
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
}

void identify_file(const std::string& path, Sha256& into) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw_errno("open", path, errno);
  const std::string text = fmt::format("{}\n{} {}.{:09}\n", path, status.st_size,
                                       status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  into.update(std::as_bytes(std::span(text)));
}

}  // namespace millrace::tools
