#include "tools/picture_recoding.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "decode/codec.h"
#include "decode/recode.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/shared_work.h"

namespace millrace::tools {
namespace {

constexpr std::string_view kJpegCodec = "JPEG";

enum class Content { kJpeg, kOtherPicture, kNoPicture };

/// By the content, as readers do; what is called a picture and is none counts as one too.
Content content_of(const std::string& suffix, const io::Bytes& data) {
  const decode::CodecTable& codecs = *decode::standard_codecs();
  if (const decode::Codec* codec = codecs.of_content(data.span()))
    return codec->name == kJpegCodec ? Content::kJpeg : Content::kOtherPicture;
  const bool named = codecs.of_suffix(suffix.substr(suffix.rfind('.') + 1)) != nullptr;
  return named ? Content::kOtherPicture : Content::kNoPicture;
}

bool is_of_kind(const Error& error) {
  return error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kExhausted;
}

/// Nothing for what leaves pictures as they are.
std::string said(const Component& way) {
  return way.type().name().word == "keep" ? std::string() : text(written(way));
}

std::string growth_text(std::uint64_t before, std::uint64_t after) {
  if (before == 0) return {};
  return fmt::format(" ({:+.1f} % bytes)",
                     100 * (static_cast<double>(after) / static_cast<double>(before) - 1));
}

void add_left(std::string& text, std::uint64_t count, std::string_view why) {
  if (count > 0)
    text += fmt::format(", {} left as {}: {}", count, count == 1 ? "it is" : "they are", why);
}

}  // namespace

void PictureRecoding::declare(CLI::App& app) {
  jpeg_option_.declare(app,
                       "How JPEGs are stored: restarts, re-coded without loss so that a crop is "
                       "decoded without the rest; resize(256), a smaller shorter side");
  image_option_.declare(
      app,
      "How the pictures that result are stored: raw, pixels that need no decoding; "
      "raw(65536), of small ones; raw(share=0.5), of some");
}

void PictureRecoding::settle() {
  jpeg_option_.settle();
  image_option_.settle();
  jpeg_ = Choice<JpegWay>(jpeg_option_.component()).make();
  raw_ = Choice<RawWay>(image_option_.component()).make();
  stored_ = {.jpeg = said(jpeg_option_.component()), .image = said(image_option_.component())};
}

io::Bytes PictureRecoding::as_jpeg(const std::string& suffix, const io::Bytes& data) {
  const Content content = content_of(suffix, data);
  if (content != Content::kJpeg) {
    if (content == Content::kOtherPicture) ++counts_[kNotJpeg];
    return data;
  }
  try {
    const auto file = jpeg_->apply(data);
    ++counts_[file ? kJpegs : kJpegsKept];
    if (!file) return data;
    counts_[kJpegsBefore] += data.size();
    counts_[kJpegsAfter] += file->size();
    return *file;
  } catch (const Error& error) {
    ++counts_[is_of_kind(error) ? kUnsupported : kDamaged];
    return data;
  }
}

decode::EncodedImage PictureRecoding::as_raw(const std::string& key, const std::string& suffix,
                                             const io::Bytes& data) {
  if (!raw_->is_for(suffix) || content_of(suffix, data) == Content::kNoPicture) return {};
  try {
    if (raw_->takes(key, decode::image_size(data))) return decode::store_raw(data);
    ++counts_[kNotRaw];
  } catch (const Error& error) {
    ++counts_[is_of_kind(error) ? kNotStorable : kNotDecoded];
  }
  return {};
}

std::string PictureRecoding::summary(trainer::Cluster& cluster) const {
  if (!wanted()) return {};
  std::array<std::uint64_t, kNumCounts> sums = {};
  auto own = nlohmann::json::array();
  for (const auto& count : counts_) own.push_back(count.load());
  for (const nlohmann::json& process : of_processes(cluster, own))
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += process.at(i).get<std::uint64_t>();
  std::string text;
  if (jpeg_ != nullptr) {
    text += "; " + counted(sums[kJpegs], "JPEG") + " " + jpeg_->done() +
            growth_text(sums[kJpegsBefore], sums[kJpegsAfter]);
    add_left(text, sums[kJpegsKept], jpeg_->why_not());
    add_left(text, sums[kNotJpeg], "not JPEG");
    add_left(text, sums[kUnsupported], "of a kind that cannot be");
    add_left(text, sums[kDamaged], "damaged");
  }
  if (raw_ == nullptr) return text;
  text += "; " + counted(sums[kRaw], "picture") + " stored raw" +
          growth_text(sums[kRawBefore], sums[kRawAfter]);
  add_left(text, sums[kNotRaw], "not among those to be raw");
  add_left(text, sums[kNotStorable], "raw already, or of a kind that would lose something");
  add_left(text, sums[kNotDecoded], "damaged");
  add_left(text, sums[kTaken], "their samples have a field of that name");
  return text;
}

}  // namespace millrace::tools
