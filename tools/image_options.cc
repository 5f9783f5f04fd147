#include "tools/image_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/option_settings.h"
#include "tools/parse.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

constexpr int kMaxSide = 16384;

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
      ->type_name("N|HxW")
      ->default_function([this] { return has_size() ? extent_text(size) : ""; });
  app.add_option("--channels", channels, "3 for colour, 1 for grey; 0: the model's own")
      ->transform(one_of({"0", "1", "3"}));
  app.add_option("--augment", augment, "Random transforms in training")
      ->transform(one_of({"none", "flip", "crop-flip", "rrc-flip"}));
  app.add_option("--fit", fit,
                 "How pictures of other sizes become --size, in training and evaluation: cover, "
                 "resized in proportion and cropped; squeeze, both sides resized; none, windows of "
                 "them as stored [cover; squeeze for masks and depths]")
      ->transform(one_of({"cover", "squeeze", "none"}, {{"crop", "cover"},
                                                        {"center", "cover"},
                                                        {"squash", "squeeze"},
                                                        {"stretch", "squeeze"},
                                                        {"fill", "squeeze"}}));
  app.add_option("--eval-resize", eval_resize,
                 "Evaluation resizes the shorter side to this and crops the middle; 0: --size, "
                 "with rrc-flip 8/7 of it")
      ->transform(whole_number(0, kMaxSide))
      ->check(may_change());
  app.add_option(
         "--mean", mean,
         "Subtracted from values in 0 to 1: one number, or one per channel [ImageNet's; grey 0.5]")
      ->delimiter(',')
      ->expected(1, 3)
      ->default_function([this] { return fmt::format("[{}]", fmt::join(normalize().mean, ",")); });
  app.add_option("--std", std, "Divisor: one number, or one per channel [ImageNet's; grey 0.5]")
      ->delimiter(',')
      ->expected(1, 3)
      ->transform(above_zero())
      ->default_function([this] { return fmt::format("[{}]", fmt::join(normalize().std, ",")); });
}

void ImageOptions::settle() {
  if (fit.empty()) fit = whole ? "squeeze" : "cover";
}

void ImageOptions::settle_as_before() {
  const bool square = size.height == size.width;
  if (augment == "crop-flip") fit = "none";
  if (augment == "rrc-flip" && square) fit = "cover";
  if (fit.empty() || whole) fit = "squeeze";
}

void ImageOptions::check() const {
  require(!whole || fit.empty() || fit == "squeeze",
          "--fit " + fit + ": masks and depths are predicted for the whole picture: --fit squeeze");
  require(fit != "none" || augment != "rrc-flip", "--fit none: rrc-flip resizes what it crops");
  require(eval_resize == 0 || (!whole && fit != "none"),
          whole ? "--eval-resize: masks and depths are predicted for the whole picture"
                : "--eval-resize: --fit none resizes nothing");
  require(eval_resize == 0 || eval_resize >= std::min(size.height, size.width),
          fmt::format("--eval-resize {} is below --size {}", eval_resize,
                      std::min(size.height, size.width)));
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

/// The resize that `fit` asks for.
std::vector<decode::Transform> ImageOptions::fitted(const decode::Extent& to) const {
  if (whole || fit == "squeeze") return {decode::Resize{.height = to.height, .width = to.width}};
  if (fit == "none") return {};
  return {decode::ResizeCover{.height = to.height, .width = to.width}};
}

std::vector<decode::Transform> ImageOptions::train_transforms() const {
  if (augment == "rrc-flip") {
    decode::RandomResizedCrop crop{.size = size};
    // Windows of roughly the canvas's proportions, so that the content is not distorted.
    for (double& ratio : crop.aspect_ratio) ratio *= static_cast<double>(size.width) / size.height;
    return finished({crop, decode::RandomHorizontalFlip{}});
  }
  std::vector<decode::Transform> geometry = fitted(size);
  if (augment == "crop-flip") {
    geometry.emplace_back(decode::RandomCrop{.height = size.height,
                                             .width = size.width,
                                             .padding = std::min(size.height, size.width) / 8});
  } else {
    geometry.emplace_back(decode::CenterCrop{.height = size.height, .width = size.width});
  }
  if (augment != "none") geometry.emplace_back(decode::RandomHorizontalFlip{});
  return finished(std::move(geometry));
}

decode::Extent ImageOptions::eval_extent() const {
  if (whole) return size;
  const int shorter = std::min(size.height, size.width);
  if (eval_resize > 0)
    return {size.height * eval_resize / shorter, size.width * eval_resize / shorter};
  if (augment == "rrc-flip") return {size.height * 8 / 7, size.width * 8 / 7};
  return size;
}

std::vector<decode::Transform> ImageOptions::eval_transforms() const {
  std::vector<decode::Transform> geometry = fitted(eval_extent());
  geometry.emplace_back(decode::CenterCrop{.height = size.height, .width = size.width});
  return finished(std::move(geometry));
}

}  // namespace millrace::tools
