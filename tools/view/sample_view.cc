#include "tools/view/sample_view.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "decode/paired_decoder.h"
#include "io/base/error.h"
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

decode::Image shrunk(const io::Bytes& encoded, const decode::Image& image, bool tolerate) {
  const int longer = std::max(image.height, image.width);
  const auto scaled = [longer](int side) {
    return std::max(1, side * SampleView::kMaxStored / longer);
  };
  const decode::ImageDecoder decoder(
      {.transforms = {decode::Resize{.height = scaled(image.height), .width = scaled(image.width)}},
       .dtype = decode::DType::kUInt8,
       .tolerate_truncated = tolerate});
  std::vector<std::byte> pixels(decoder.output().num_bytes());
  decoder.decode(encoded, {}, pixels);
  return to_image(decoder.output(), std::move(pixels));
}

}  // namespace

std::vector<decode::PairedImage> SampleView::files_of(const wds::Sample& sample) const {
  std::vector<decode::PairedImage> files;
  for (const std::string& suffixes : options_.fields) {
    const wds::Field* field = sample.find_any(suffixes);
    if (field == nullptr) throw Error(ErrorCode::kNotFound, "the sample has no " + suffixes);
    files.push_back({.encoded = field->data,
                     .where = {.url = *sample.url,
                               .key = sample.key,
                               .member = sample.key + "." + field->suffix,
                               .offset = field->offset}});
  }
  return files;
}

std::vector<decode::Image> SampleView::pictures(const wds::Sample& sample,
                                                std::uint64_t index) const {
  auto images = options_.raw ? stored(files_of(sample)) : seen(files_of(sample), index);
  for (std::size_t i = 1; i < images.size(); ++i) {
    const bool depth = options_.fields[i].find("depth") != std::string::npos;
    images[i] = made_visible(images[i], depth ? GreyIs::kMeasure : GreyIs::kClassesIfSmall);
  }
  return images;
}

decode::Image SampleView::decoded(const decode::PairedImage& file) const {
  try {
    return decode::decode_image(file.encoded, {.tolerate_truncated = options_.tolerate_truncated});
  } catch (Error& error) {
    error.annotate(file.where);
    throw;
  }
}

std::vector<decode::Image> SampleView::stored(const std::vector<decode::PairedImage>& files) const {
  std::vector<decode::Image> images;
  for (const decode::PairedImage& file : files) {
    decode::Image image = decoded(file);
    if (std::max(image.height, image.width) > kMaxStored)
      image = shrunk(file.encoded, image, options_.tolerate_truncated);
    images.push_back(std::move(image));
  }
  return images;
}

std::vector<decode::Image> SampleView::seen(std::vector<decode::PairedImage> files,
                                            std::uint64_t index) const {
  std::vector<decode::ImageDecoderOptions> members;
  for (std::size_t i = 0; i < files.size(); ++i) members.push_back(member(i, files[i]));
  const decode::PairedDecoder decoder(geometry(), members);
  std::vector<std::vector<std::byte>> buffers;
  for (std::size_t i = 0; i < files.size(); ++i)
    buffers.emplace_back(decoder.output(i).num_bytes());
  for (std::size_t i = 0; i < files.size(); ++i) files[i].slot = buffers[i];
  decoder.decode(files, {.seed = options_.seed, .index = index});
  std::vector<decode::Image> images;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const bool floats = decoder.output(i).dtype == decode::DType::kFloat32;
    images.push_back(
        to_image(decoder.output(i), floats ? shown(buffers[i]) : std::move(buffers[i])));
  }
  return images;
}

decode::ImageDecoderOptions SampleView::member(std::size_t field,
                                               const decode::PairedImage& file) const {
  decode::ImageDecoderOptions member{.channels = options_.images.channels,
                                     .dtype = decode::DType::kUInt8,
                                     .tolerate_truncated = options_.tolerate_truncated};
  if (field > 0) {
    member.channels = decoded(file).channels == 1 ? 1 : 3;
    member.interpolation = decode::Interpolation::kNearest;
  } else if (normalised()) {
    member.transforms = {options_.images.normalize()};
    member.dtype = decode::DType::kFloat32;
  }
  return member;
}

std::vector<decode::Transform> SampleView::geometry() const {
  auto transforms =
      options_.evaluation ? options_.images.eval_transforms() : options_.images.train_transforms();
  std::erase_if(transforms, [](const decode::Transform& transform) {
    return std::holds_alternative<decode::Normalize>(transform);
  });
  return transforms;
}

}  // namespace millrace::tools
