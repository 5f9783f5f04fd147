#include "decode/codec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "decode/detail/codecs.h"
#include "io/base/error.h"

namespace millrace::decode {

void CodecTable::add(Codec codec) {
  require(!codec.name.empty() && !codec.suffixes.empty() && codec.sniff && codec.read_header &&
              codec.decode,
          "a codec needs a name, a suffix, sniff, read_header and decode");
  for (const Codec& other : codecs_)
    require(other.name != codec.name, fmt::format("there are two codecs named {}", codec.name));
  for (const std::string& suffix : codec.suffixes)
    require(of_suffix(suffix) == nullptr, fmt::format("two codecs have the suffix {}", suffix));
  codecs_.push_back(std::move(codec));
}

const Codec* CodecTable::of_content(std::span<const std::byte> file) const {
  for (const Codec& codec : codecs_)
    if (codec.sniff(file)) return &codec;
  return nullptr;
}

const Codec* CodecTable::of_suffix(std::string_view suffix) const {
  for (const Codec& codec : codecs_)
    if (std::ranges::find(codec.suffixes, suffix) != codec.suffixes.end()) return &codec;
  return nullptr;
}

std::string CodecTable::suffixes() const {
  std::string all;
  for (const Codec& codec : codecs_)
    for (const std::string& suffix : codec.suffixes) all += (all.empty() ? "" : ";") + suffix;
  return all;
}

std::vector<std::string> CodecTable::written_formats() const {
  std::vector<std::string> formats;
  for (const Codec& codec : codecs_)
    if (codec.encode) formats.push_back(codec.suffixes.front());
  return formats;
}

EncodedImage CodecTable::encode(const Image& image, std::string_view format,
                                const EncodeOptions& options) const {
  const Codec* codec = of_suffix(format);
  require(codec != nullptr && codec->encode,
          fmt::format("images cannot be written as \"{}\", but as {}", format,
                      fmt::join(written_formats(), ", ")));
  return codec->encode(image, options);
}

const std::shared_ptr<const CodecTable>& standard_codecs() {
  static const auto table = [] {
    CodecTable codecs;
    codecs.add(detail::jpeg_codec());
    codecs.add(detail::png_codec());
    codecs.add(detail::pnm_codec());
    codecs.add(detail::webp_codec());
    codecs.add(detail::tiff_codec());
    return std::make_shared<const CodecTable>(std::move(codecs));
  }();
  return table;
}

}  // namespace millrace::decode
