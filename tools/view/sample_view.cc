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

std::vector<decode::Image> SampleView::pictures(const wds::Sample& sample,
                                                std::uint64_t index) const {
  std::vector<io::Bytes> encoded;
  for (const std::string& suffixes : options_.fields) {
    const wds::Field* field = sample.find_any(suffixes);
    if (field == nullptr) throw Error(ErrorCode::kNotFound, "the sample has no " + suffixes);
    encoded.push_back(field->data);
  }
  auto images = options_.raw ? stored(encoded) : seen(encoded, index);
  for (std::size_t i = 1; i < images.size(); ++i) {
    const bool depth = options_.fields[i].find("depth") != std::string::npos;
    images[i] = made_visible(images[i], depth ? GreyIs::kMeasure : GreyIs::kClassesIfSmall);
  }
  return images;
}

std::vector<decode::Image> SampleView::stored(const std::vector<io::Bytes>& encoded) const {
  std::vector<decode::Image> images;
  for (const io::Bytes& bytes : encoded) {
    decode::Image image =
        decode::decode_image(bytes, {.tolerate_truncated = options_.tolerate_truncated});
    if (std::max(image.height, image.width) > kMaxStored)
      image = shrunk(bytes, image, options_.tolerate_truncated);
    images.push_back(std::move(image));
  }
  return images;
}

std::vector<decode::Image> SampleView::seen(const std::vector<io::Bytes>& encoded,
                                            std::uint64_t index) const {
  std::vector<decode::ImageDecoderOptions> members;
  for (std::size_t i = 0; i < encoded.size(); ++i) members.push_back(member(i, encoded[i]));
  const decode::PairedDecoder decoder(geometry(), members);
  std::vector<std::vector<std::byte>> buffers;
  for (std::size_t i = 0; i < encoded.size(); ++i)
    buffers.emplace_back(decoder.output(i).num_bytes());
  const std::vector<std::span<std::byte>> slots(buffers.begin(), buffers.end());
  decoder.decode(encoded, {.seed = options_.seed, .index = index}, slots);
  std::vector<decode::Image> images;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    const bool floats = decoder.output(i).dtype == decode::DType::kFloat32;
    images.push_back(
        to_image(decoder.output(i), floats ? shown(buffers[i]) : std::move(buffers[i])));
  }
  return images;
}

decode::ImageDecoderOptions SampleView::member(std::size_t field, const io::Bytes& encoded) const {
  decode::ImageDecoderOptions member{.channels = options_.images.channels,
                                     .dtype = decode::DType::kUInt8,
                                     .tolerate_truncated = options_.tolerate_truncated};
  if (field > 0) {
    member.channels = decode::decode_image(encoded).channels == 1 ? 1 : 3;
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
