#include "decode/detail/picture_reader.h"

#include <fmt/format.h>

#include <chrono>
#include <string>

#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

using Clock = std::chrono::steady_clock;

std::string mask_text(const ClassMask& mask) {
  std::string text = fmt::format("mask {} of {}", mask.ignore, mask.classes);
  for (const ClassColour& colour : mask.colours)
    text += fmt::format(" {}:{}:{}={}", colour.rgb[0], colour.rgb[1], colour.rgb[2], colour.label);
  return text;
}

std::uint32_t form_of(const ImageDecoderOptions& options, bool keeps_levels, DecodedCache& cache) {
  if (options.codecs != standard_codecs()) return cache.new_form();
  std::string text =
      fmt::format("{} channels{}{}", options.channels, options.apply_orientation ? ", upright" : "",
                  options.palette_indices ? ", palette indices" : "");
  if (keeps_levels) text += ", 16 bits";
  if (options.classes) text += ", " + mask_text(*options.classes);
  return cache.form_of(text);
}

Box whole_box(const ImageSource& source, int scale) {
  return {0, 0, (source.width() + scale - 1) / scale, (source.height() + scale - 1) / scale};
}

std::size_t picture_bytes(const Box& box, int channels) {
  return static_cast<std::size_t>(box.width) * static_cast<std::size_t>(box.height) *
         static_cast<std::size_t>(channels);
}

}  // namespace

PictureReader::PictureReader(const ImageDecoderOptions& options, const ClassReader* classes)
    : channels_(classes != nullptr ? ClassReader::kChannels : options.channels),
      tolerate_truncated_(options.tolerate_truncated),
      classes_(classes),
      cache_(options.cache),
      meter_(options.meter),
      form_(options.cache ? form_of(options, classes != nullptr && !options.classes, *options.cache)
                          : 0) {}

PixelView PictureReader::decode(const ImageSource& source, const Box& box, int scale,
                                SourceWorkspace& workspace) const {
  if (classes_ != nullptr) return classes_->read(source, box, workspace);
  return source.read(box, scale, channels_, workspace);
}

// What is left of a damaged picture may differ from crop to crop; what the file has as it is needs
// no decoding.
PixelView PictureReader::read(std::span<const std::byte> encoded, const ImageSource& source,
                              const Box& box, int scale, SourceWorkspace& workspace) const {
  const bool counts = cache_ != nullptr || meter_ != nullptr;
  if (!counts || source.header().in_place || tolerate_truncated_)
    return decode(source, box, scale, workspace);
  DecodedCache::Key key{.size = encoded.size(), .form = form_, .scale = scale};
  if (const auto kept = find(encoded, source, box, key, workspace)) return *kept;
  const std::size_t bytes = picture_bytes(whole_box(source, scale), channels_);
  const auto start = Clock::now();
  PixelView view;
  const bool keeps = cache_ != nullptr && cache_->has_room(bytes);
  if (!keeps || !keep_whole(key, source, workspace, view))
    view = decode(source, box, scale, workspace);
  if (meter_ == nullptr) return view;
  meter_->decoded.fetch_add(1, std::memory_order_relaxed);
  meter_->decoded_bytes.fetch_add(bytes, std::memory_order_relaxed);
  meter_->decoding_ns.fetch_add(std::chrono::nanoseconds(Clock::now() - start).count(),
                                std::memory_order_relaxed);
  return view;
}

/// What is kept of the picture; sets the key's content.
std::optional<PixelView> PictureReader::find(std::span<const std::byte> encoded,
                                             const ImageSource& source, const Box& box,
                                             DecodedCache::Key& key,
                                             SourceWorkspace& workspace) const {
  if (cache_ == nullptr) return {};
  key.content = DecodedCache::content_of(encoded);
  const auto kept = cache_->find(key, box, workspace.kept);
  if (!kept) return {};
  if (meter_ != nullptr) meter_->found.fetch_add(1, std::memory_order_relaxed);
  workspace.codec.untidy = source.header().untidy;
  return kept;
}

/// False if the picture cannot be decoded whole, or is odd where a crop need not be.
bool PictureReader::keep_whole(const DecodedCache::Key& key, const ImageSource& source,
                               SourceWorkspace& workspace, PixelView& whole) const {
  try {
    const Box all = whole_box(source, key.scale);
    whole = decode(source, all, key.scale, workspace);
    if (workspace.codec.untidy != source.header().untidy || whole.box != all) return false;
  } catch (const Error&) {
    return false;
  }
  cache_->keep(key, whole);
  return true;
}

}  // namespace millrace::decode::detail
