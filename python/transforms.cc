// decode/transforms.h, class masks and limits as Python classes.
#include "decode/transforms.h"

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "decode/class_mask.h"
#include "decode/limits.h"
#include "io/base/error.h"
#include "python/bind.h"
#include "python/struct_binding.h"

namespace millrace::python {
namespace {

using namespace decode;

/// One number for both sides, or (height, width).
using SizeValue = std::variant<int, std::pair<int, int>>;

SizeValue size_value(const Extent& size) {
  if (size.height == size.width) return size.height;
  return std::pair(size.height, size.width);
}

Extent extent_of(const SizeValue& size) {
  if (const int* both = std::get_if<int>(&size)) return {*both};
  const auto& [height, width] = std::get<1>(size);
  return {height, width};
}

using ColourValue = std::pair<std::tuple<int, int, int>, std::int64_t>;

std::vector<ColourValue> colour_values(const ClassMask& mask) {
  std::vector<ColourValue> values;
  for (const ClassColour& colour : mask.colours) {
    const auto& [red, green, blue] = colour.rgb;
    values.push_back({{red, green, blue}, colour.label});
  }
  return values;
}

std::uint8_t channel_of(int value) {
  require(value >= 0 && value <= 255, "a colour is three numbers from 0 to 255");
  return static_cast<std::uint8_t>(value);
}

void set_colours(ClassMask& mask, const std::vector<ColourValue>& values) {
  mask.colours.clear();
  for (const auto& [rgb, label] : values) {
    const auto& [red, green, blue] = rgb;
    mask.colours.push_back({{channel_of(red), channel_of(green), channel_of(blue)}, label});
  }
}

void bind_crops(nb::module_& module) {
  bind_struct<ResizeShort, 1>(module, "ResizeShort",
                              "Resizes so that the shorter side is `size`, keeping the ratio.", {},
                              member("size", &ResizeShort::size));
  bind_struct<Resize, 2>(module, "Resize", "Resizes to exactly (height, width).", {},
                         member("height", &Resize::height), member("width", &Resize::width));
  bind_struct<CenterCrop, 2>(module, "CenterCrop", "The middle of the picture.", {},
                             member("height", &CenterCrop::height),
                             member("width", &CenterCrop::width));
  bind_struct<RandomCrop, 3>(
      module, "RandomCrop",
      "Pads each side by `padding` zeros, then takes a (height, width) window at random.", {},
      member("height", &RandomCrop::height), member("width", &RandomCrop::width),
      member("padding", &RandomCrop::padding));
  bind_struct<RandomResizedCrop, 1>(
      module, "RandomResizedCrop",
      "A window of random area (a share of the picture's) and aspect ratio (width / height), "
      "resized to `size`: one number, or (height, width).",
      {},
      member_as<SizeValue>(
          "size", [](const RandomResizedCrop& of) { return size_value(of.size); },
          [](RandomResizedCrop& of, const SizeValue& size) { of.size = extent_of(size); }),
      member("area", &RandomResizedCrop::area),
      member("aspect_ratio", &RandomResizedCrop::aspect_ratio));
}

void bind_colours(nb::module_& module) {
  bind_struct<RandomHorizontalFlip, 1>(module, "RandomHorizontalFlip",
                                       "Mirrors with this probability.", {},
                                       member("probability", &RandomHorizontalFlip::probability));
  bind_struct<ColorJitter, 3>(
      module, "ColorJitter",
      "Random brightness, contrast and saturation, each by a factor in [1 - x, 1 + x], in random "
      "order. Only flips and Normalize may follow it.",
      {}, member("brightness", &ColorJitter::brightness),
      member("contrast", &ColorJitter::contrast), member("saturation", &ColorJitter::saturation));
  bind_struct<Normalize, 2>(
      module, "Normalize",
      "(value / 255 - mean) / std, per channel; a single value applies to all channels.", {},
      member("mean", &Normalize::mean), member("std", &Normalize::std))
      .def_static("imagenet", &Normalize::imagenet, "The mean and deviation of ImageNet.");
}

}  // namespace

void bind_transforms(nb::module_& module) {
  bind_crops(module);
  bind_colours(module);
  bind_struct<ClassMask, 0>(
      module, "ClassMask",
      "How the pixels of a mask are read as class numbers: the stored numbers, or by the table "
      "`colours`, a list of ((r, g, b), label). `ignore` is the label of padding.",
      {}, member("ignore", &ClassMask::ignore), member("classes", &ClassMask::classes),
      member_as<std::vector<ColourValue>>("colours", colour_values, set_colours));
  bind_struct<Limits, 0>(module, "Limits", "Upper bounds for what an encoded field may claim.", {},
                         member("max_pixels", &Limits::max_pixels),
                         member("max_scans", &Limits::max_scans),
                         member("max_unpacked_bytes", &Limits::max_unpacked_bytes),
                         member("max_ratio", &Limits::max_ratio));
}

}  // namespace millrace::python
