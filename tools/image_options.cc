#include "tools/image_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

void check_values(const std::vector<float>& values, int channels, const char* option) {
  const auto count = static_cast<int>(values.size());
  if (count > 1 && channels != 0 && count != channels)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} for {}", option, counted(values.size(), "value"),
                            counted(static_cast<std::uint64_t>(channels), "channel")));
}

}  // namespace

void ImageOptions::declare(CLI::App& app) {
  app.add_option("--size", size, "Height and width of what the model sees; 0: the model's own")
      ->transform(whole_number(0, 16384));
  app.add_option("--channels", channels, "3 for colour, 1 for grey; 0: the model's own")
      ->transform(one_of({"0", "1", "3"}));
  app.add_option("--augment", augment, "Training's random transforms")
      ->transform(one_of({"none", "crop-flip", "rrc-flip"}));
  app.add_option("--mean", mean,
                 "Subtracted, of values in 0 to 1, one or one a channel [ImageNet's; grey 0.5]")
      ->delimiter(',')
      ->expected(1, 3);
  app.add_option("--std", std, "Divided by [ImageNet's; grey 0.5]")
      ->delimiter(',')
      ->expected(1, 3)
      ->transform(above_zero());
}

void ImageOptions::check() const {
  check_values(mean, channels, "--mean");
  check_values(std, channels, "--std");
}

decode::Normalize ImageOptions::normalize() const {
  decode::Normalize normalize = decode::Normalize::imagenet();
  if (channels == 1) normalize = {.mean = {0.5F}, .std = {0.5F}};
  if (!mean.empty()) normalize.mean = mean;
  if (!std.empty()) normalize.std = std;
  return normalize;
}

std::vector<decode::Transform> ImageOptions::train_transforms() const {
  if (augment == "rrc-flip")
    return {decode::RandomResizedCrop{.size = size}, decode::RandomHorizontalFlip{}, normalize()};
  if (augment == "crop-flip")
    return {decode::RandomCrop{.height = size, .width = size, .padding = size / 8},
            decode::RandomHorizontalFlip{}, normalize()};
  return eval_transforms();
}

std::vector<decode::Transform> ImageOptions::eval_transforms() const {
  if (augment == "rrc-flip")
    return {decode::ResizeShort{.size = size * 8 / 7},
            decode::CenterCrop{.height = size, .width = size}, normalize()};
  return {decode::Resize{.height = size, .width = size}, normalize()};
}

}  // namespace millrace::tools
