#include "tools/image_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/parse.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

void check_channels(const std::vector<float>& values, int channels, const char* option) {
  const auto count = static_cast<int>(values.size());
  if (count > 1 && channels != 0 && count != channels)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} for {}", option, counted(values.size(), "value"),
                            counted(static_cast<std::uint64_t>(channels), "channel")));
}

}  // namespace

void ImageOptions::declare(CLI::App& app) {
  app.add_option_function<std::string>(
         "--size",
         [this](const std::string& text) {
           size = text == "0" ? decode::Extent(0) : parse_extent("--size", text);
         },
         "Size of the model's input: N, or height x width [the model's own]")
      ->type_name("N|HxW");
  app.add_option("--channels", channels, "3 for colour, 1 for grey; 0: the model's own")
      ->transform(one_of({"0", "1", "3"}));
  app.add_option("--augment", augment, "Random transforms in training")
      ->transform(one_of({"none", "flip", "crop-flip", "rrc-flip"}));
  app.add_option(
         "--mean", mean,
         "Subtracted from values in 0 to 1: one number, or one per channel [ImageNet's; grey 0.5]")
      ->delimiter(',')
      ->expected(1, 3);
  app.add_option("--std", std, "Divisor: one number, or one per channel [ImageNet's; grey 0.5]")
      ->delimiter(',')
      ->expected(1, 3)
      ->transform(above_zero());
}

void ImageOptions::check() const {
  check_channels(mean, channels, "--mean");
  check_channels(std, channels, "--std");
}

decode::Normalize ImageOptions::normalize() const {
  decode::Normalize normalize = decode::Normalize::imagenet();
  if (channels == 1) normalize = {.mean = {0.5F}, .std = {0.5F}};
  if (!mean.empty()) normalize.mean = mean;
  if (!std.empty()) normalize.std = std;
  return normalize;
}

decode::Extent ImageOptions::canvas() const {
  const auto padded = [this](int side) {
    return (side + multiple_of - 1) / multiple_of * multiple_of;
  };
  return {padded(size.height), padded(size.width)};
}

/// Appends the transforms that all images end with.
std::vector<decode::Transform> ImageOptions::finished(
    std::vector<decode::Transform> geometry) const {
  const decode::Extent padded = canvas();
  if (padded != size)
    geometry.emplace_back(decode::CenterCrop{.height = padded.height, .width = padded.width});
  geometry.emplace_back(normalize());
  return geometry;
}

std::vector<decode::Transform> ImageOptions::train_transforms() const {
  const decode::Resize resize{.height = size.height, .width = size.width};
  if (augment == "flip") return finished({resize, decode::RandomHorizontalFlip{}});
  if (augment == "rrc-flip") {
    decode::RandomResizedCrop crop{.size = size};
    // Windows of roughly the canvas's proportions, so that the content is not distorted.
    for (double& ratio : crop.aspect_ratio) ratio *= static_cast<double>(size.width) / size.height;
    return finished({crop, decode::RandomHorizontalFlip{}});
  }
  if (augment == "crop-flip")
    return finished({decode::RandomCrop{.height = size.height,
                                        .width = size.width,
                                        .padding = std::min(size.height, size.width) / 8},
                     decode::RandomHorizontalFlip{}});
  return finished({resize});
}

std::vector<decode::Transform> ImageOptions::eval_transforms() const {
  if (whole || augment != "rrc-flip")
    return finished({decode::Resize{.height = size.height, .width = size.width}});
  const decode::CenterCrop middle{.height = size.height, .width = size.width};
  if (size.height == size.width)
    return finished({decode::ResizeShort{.size = size.height * 8 / 7}, middle});
  return finished(
      {decode::Resize{.height = size.height * 8 / 7, .width = size.width * 8 / 7}, middle});
}

}  // namespace millrace::tools
