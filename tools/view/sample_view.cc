#include "tools/view/sample_view.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "decode/paired_decoder.h"
#include "decode/transforms/resize.h"
#include "decode/views_decoder.h"
#include "io/base/error.h"
#include "tools/view/box_outlines.h"
#include "tools/view/visible.h"

namespace millrace::tools {
namespace {

// Normalised values from -2 to 2 span black to white.
constexpr float kMiddle = 127.5F;
constexpr float kStep = 63.75F;

decode::Image to_image(const decode::ArraySpec& spec, std::vector<std::byte> pixels) {
  return {.height = static_cast<int>(spec.shape[0]),
          .width = static_cast<int>(spec.shape[1]),
          .channels = static_cast<int>(spec.shape[2]),
          .pixels = io::Bytes::take(std::move(pixels))};
}

std::vector<std::byte> shown(const std::vector<std::byte>& normalised) {
  std::vector<std::byte> pixels(normalised.size() / sizeof(float));
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    float value = 0;
    std::memcpy(&value, normalised.data() + i * sizeof(float), sizeof(float));
    const float level = std::clamp(std::round(kMiddle + kStep * value), 0.0F, 255.0F);
    pixels[i] = static_cast<std::byte>(static_cast<std::uint8_t>(level));
  }
  return pixels;
}

decode::Image classes_image(const decode::ArraySpec& spec, const std::vector<std::byte>& labels) {
  decode::ClassImage mask{.height = static_cast<int>(spec.shape[0]),
                          .width = static_cast<int>(spec.shape[1]),
                          .labels = {}};
  mask.labels.resize(labels.size() / sizeof(std::int64_t));
  std::memcpy(mask.labels.data(), labels.data(), labels.size());
  return visible_classes(mask);
}

decode::Image decoded(const decode::ArraySpec& spec, std::vector<std::byte> pixels) {
  if (spec.dtype == decode::DType::kInt64) return classes_image(spec, pixels);
  if (spec.dtype == decode::DType::kFloat32) return to_image(spec, shown(pixels));
  return to_image(spec, std::move(pixels));
}

/// A size of the same proportions whose longer side is at most `most`.
decode::Resize within(const decode::ImageSize& size, int most) {
  const int longer = std::max(size.height, size.width);
  const auto scaled = [&](int side) {
    return longer <= most ? side : std::max(1, side * most / longer);
  };
  return {.size = {scaled(size.height), scaled(size.width)}};
}

/// The result of `work`; its faults are annotated with the file's location.
template <typename Work>
auto located(const decode::PairedImage& file, const Work& work) {
  try {
    return work();
  } catch (Error& error) {
    error.annotate(file.where);
    throw;
  }
}

decode::ImageDecoderOptions as_classes(decode::ImageDecoderOptions options) {
  options.channels = 1;
  options.dtype = decode::DType::kInt64;
  options.interpolation = decode::Interpolation::kNearest;
  options.classes = decode::ClassMask{};
  return options;
}

}  // namespace

std::vector<decode::PairedImage> SampleView::files_of(const wds::Sample& sample) const {
  std::vector<decode::PairedImage> files;
  for (const std::string& suffixes : options_.fields) {
    const wds::Field* field = sample.find_any(suffixes);
    if (field == nullptr) throw Error(ErrorCode::kNotFound, "the sample has no " + suffixes);
    files.push_back({.encoded = field->data,
                     .where = {.url = io::printable_url(*sample.url),
                               .key = sample.key,
                               .member = sample.key + "." + field->suffix,
                               .offset = field->offset}});
  }
  return files;
}

std::vector<decode::Image> SampleView::pictures(const wds::Sample& sample,
                                                std::uint64_t index) const {
  const auto files = files_of(sample);
  const decode::SampleId id{
      .seed = options_.seed, .index = index, .sample = decode::sample_number(sample.key)};
  if (!options_.views.empty())
    return located(files.front(), [&] { return seen_views(files.front().encoded, id); });
  std::vector<decode::Image> images;
  if (options_.raw) {
    for (std::size_t i = 0; i < files.size(); ++i)
      images.push_back(located(files[i], [&] { return stored(i, files[i].encoded); }));
  } else {
    images = seen(files, id);
  }
  if (!options_.boxes.empty()) add_boxes(sample, files.front().encoded, id, images.front());
  for (std::size_t i = 1; i < images.size(); ++i) {
    const bool depth = options_.fields[i].find("depth") != std::string::npos;
    images[i] = made_visible(images[i], depth ? GreyIs::kMeasure : GreyIs::kClassesIfSmall);
  }
  return images;
}

/// How the image became the one that is drawn.
decode::Geometry SampleView::image_geometry(const decode::ImageSize& size,
                                            const decode::Image& drawn,
                                            const decode::SampleId& id) const {
  if (options_.raw) {
    decode::Geometry geometry(size.width, size.height);
    geometry.resize(drawn.width, drawn.height);
    return geometry;
  }
  const decode::PictureGeometry pictures({.transforms = transforms()});
  return pictures.choose(size, id);
}

std::vector<decode::ObjectBox> SampleView::boxes_of(const wds::Sample& sample,
                                                    const decode::Geometry& geometry,
                                                    const decode::ImageSize& size) const {
  const wds::Field* field = sample.find_any(options_.boxes);
  if (field == nullptr) throw Error(ErrorCode::kNotFound, "the sample has no " + options_.boxes);
  auto boxes = decode::decode_json_boxes(field->data, {});
  decode::scale_boxes(boxes, size);
  for (decode::ObjectBox& object : boxes.objects)
    object.bounds = decode::seen_through(geometry, object.bounds).bounds;
  return std::move(boxes.objects);
}

void SampleView::add_boxes(const wds::Sample& sample, const io::Bytes& encoded,
                           const decode::SampleId& id, decode::Image& drawn) const {
  const decode::ImageSize size =
      decode::image_size(encoded, {.tolerate_truncated = options_.tolerate_truncated});
  drawn = outlined(drawn, boxes_of(sample, image_geometry(size, drawn, id), size));
}

bool SampleView::shows_classes(const wds::Sample& sample) const {
  for (std::size_t i = 1; i < options_.fields.size(); ++i) {
    const wds::Field* field = sample.find_any(options_.fields[i]);
    if (field != nullptr && holds_classes(i, field->data)) return true;
  }
  return false;
}

bool SampleView::holds_classes(std::size_t field, const io::Bytes& encoded) const {
  if (field == 0 || options_.fields[field].find("mask") == std::string::npos) return false;
  try {
    static_cast<void>(decode::decode_classes(encoded, {}));
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return false;  // a colour picture, or a JPEG
  }
}

decode::Image SampleView::stored(std::size_t field, const io::Bytes& encoded) const {
  const bool classes = holds_classes(field, encoded);
  const decode::DecodeImageOptions whole{.tolerate_truncated = options_.tolerate_truncated};
  const decode::ImageSize size = decode::image_size(encoded, whole);
  if (!classes && std::max(size.height, size.width) <= kMaxStored)
    return decode::decode_image(encoded, whole);
  decode::ImageDecoderOptions options{.transforms = {within(size, kMaxStored)},
                                      .dtype = decode::DType::kUInt8,
                                      .tolerate_truncated = options_.tolerate_truncated};
  const decode::ImageDecoder decoder(classes ? as_classes(options) : options);
  std::vector<std::byte> pixels(decoder.output().num_bytes());
  decoder.decode(encoded, {}, pixels);
  return decoded(decoder.output(), std::move(pixels));
}

std::vector<decode::Image> SampleView::seen_views(const io::Bytes& encoded,
                                                  const decode::SampleId& id) const {
  std::vector<decode::ImageDecoderOptions> members;
  for (const ImageOptions& images : options_.views) members.push_back(view_of(images));
  const decode::ViewsDecoder decoder(members);
  std::vector<std::vector<std::byte>> buffers;
  for (std::size_t i = 0; i < members.size(); ++i)
    buffers.emplace_back(decoder.output(i).num_bytes());
  std::vector<decode::PictureView> views;
  for (std::size_t i = 0; i < members.size(); ++i)
    views.push_back({.view = decode::numbered_view(i), .slot = buffers[i]});
  decoder.decode(encoded, id, views);
  std::vector<decode::Image> pictures;
  for (std::size_t i = 0; i < members.size(); ++i)
    pictures.push_back(decoded(decoder.output(i), std::move(buffers[i])));
  return pictures;
}

decode::ImageDecoderOptions SampleView::view_of(const ImageOptions& images) const {
  const decode::DType dtype = normalised() ? decode::DType::kFloat32 : decode::DType::kUInt8;
  return {.transforms = images.transforms(true, dtype),
          .channels = images.channels,
          .dtype = dtype,
          .tolerate_truncated = options_.tolerate_truncated};
}

std::vector<decode::Image> SampleView::seen(std::vector<decode::PairedImage> files,
                                            const decode::SampleId& id) const {
  std::vector<decode::ImageDecoderOptions> members;
  for (std::size_t i = 0; i < files.size(); ++i)
    members.push_back(located(files[i], [&] { return member(i, files[i].encoded); }));
  const decode::PairedDecoder decoder(
      decode::of_kind(transforms(), decode::TransformKind::kGeometry), members);
  std::vector<std::vector<std::byte>> buffers;
  for (std::size_t i = 0; i < files.size(); ++i)
    buffers.emplace_back(decoder.output(i).num_bytes());
  for (std::size_t i = 0; i < files.size(); ++i) files[i].slot = buffers[i];
  decoder.decode(files, id);
  std::vector<decode::Image> images;
  for (std::size_t i = 0; i < files.size(); ++i)
    images.push_back(decoded(decoder.output(i), std::move(buffers[i])));
  return images;
}

decode::ImageDecoderOptions SampleView::member(std::size_t field, const io::Bytes& encoded) const {
  decode::ImageDecoderOptions member{.channels = options_.images.channels,
                                     .dtype = decode::DType::kUInt8,
                                     .tolerate_truncated = options_.tolerate_truncated};
  if (holds_classes(field, encoded)) return as_classes(member);
  if (field > 0) {
    member.channels =
        decode::decode_image(encoded, {.tolerate_truncated = options_.tolerate_truncated})
                    .channels == 1
            ? 1
            : 3;
    member.interpolation = decode::Interpolation::kNearest;
  } else {
    member.transforms = decode::of_kind(transforms(), decode::TransformKind::kPixels);
    if (!normalised()) return member;
    member.transforms.emplace_back(options_.images.normalize());
    member.dtype = decode::DType::kFloat32;
  }
  return member;
}

std::vector<decode::Transform> SampleView::transforms() const {
  return options_.evaluation ? options_.images.eval_transforms()
                             : options_.images.train_transforms();
}

}  // namespace millrace::tools
