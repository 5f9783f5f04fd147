// decode/transforms.h, class masks and limits as Python classes.
#include "decode/transforms.h"

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
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

/// "height": one number, or (height, width). Its size is checked with the width, which follows.
template <typename T>
auto height_member() {
  return member_as<SizeValue>(
      "height", [](const T& of) { return of.height; },
      [](T& of, const SizeValue& size) {
        const Extent given = extent_of(size);
        of.height = given.height;
        of.width = std::holds_alternative<int>(size) ? 0 : given.width;
      },
      "Rows of pixels; as an argument also (height, width).");
}

/// "width": None is what `alone` makes of the height.
template <typename T, typename Alone>
auto width_member(const char* name, const char* doc, Alone alone) {
  using Width = std::optional<int>;
  return member_as<Width>(
      "width", [](const T& of) { return of.width == 0 ? Width() : Width(of.width); },
      [=](T& of, Width width) {
        const std::string what(name);
        require(of.height > 0, what + " needs a size above 0: a number, or a height and a width");
        require(!width || of.width == 0, what + ": (height, width) and another width are given");
        require(!width || *width > 0, what + ": the width must be above 0");
        of.width = width ? *width : of.width > 0 ? of.width : alone(of.height);
      },
      doc);
}

int square(int height) { return height; }
int open_side(int /*height*/) { return 0; }

constexpr const char* kSquareDoc = "Columns of pixels; None: as many as rows.";

void bind_resizes(nb::module_& module) {
  bind_struct<ResizeShort, 1>(module, "ResizeShort",
                              "Resizes so that the shorter side is `size`, keeping the ratio.", {},
                              member("size", &ResizeShort::size, "Pixels of the shorter side."));
  bind_struct<Resize, 2>(
      module, "Resize",
      "Resizes to exactly (height, width). Of one number it is torchvision's: the shorter side is "
      "resized to it, keeping the ratio, as ResizeShort does.",
      {}, height_member<Resize>(),
      width_member<Resize>("Resize", "Columns of pixels; None: `height` is the shorter side's.",
                           open_side));
  bind_struct<ResizeCover, 2>(
      module, "ResizeCover",
      "Resizes so that the picture just covers (height, width), keeping the ratio: one side fits, "
      "the other is as long or longer. One number is a square.",
      {}, height_member<ResizeCover>(),
      width_member<ResizeCover>("ResizeCover", kSquareDoc, square));
}

void bind_crops(nb::module_& module) {
  bind_struct<CenterCrop, 2>(
      module, "CenterCrop",
      "The middle of the picture, padded with zeros where it is smaller. One number is a square.",
      {}, height_member<CenterCrop>(), width_member<CenterCrop>("CenterCrop", kSquareDoc, square));
  bind_struct<RandomCrop, 3>(
      module, "RandomCrop",
      "Pads each side by `padding` zeros, then takes a (height, width) window at random. One "
      "number "
      "is a square.",
      {}, height_member<RandomCrop>(), width_member<RandomCrop>("RandomCrop", kSquareDoc, square),
      member("padding", &RandomCrop::padding, "Pixels that are added on each side."));
  bind_struct<RandomResizedCrop, 1>(
      module, "RandomResizedCrop",
      "A window of random area (a share of the picture's) and aspect ratio (width / height), "
      "resized to `size`.",
      {},
      member_as<SizeValue>(
          "size", [](const RandomResizedCrop& of) { return size_value(of.size); },
          [](RandomResizedCrop& of, const SizeValue& size) { of.size = extent_of(size); },
          "Of the result: one number for both sides, or (height, width)."),
      member("area", &RandomResizedCrop::area,
             "The window's smallest and largest share of the picture: torchvision's scale."),
      member("aspect_ratio", &RandomResizedCrop::aspect_ratio,
             "The window's smallest and largest width / height: torchvision's ratio."));
}

void bind_colours(nb::module_& module) {
  bind_struct<RandomHorizontalFlip, 1>(
      module, "RandomHorizontalFlip", "Mirrors with this probability.", {},
      member("probability", &RandomHorizontalFlip::probability, "From 0 to 1."));
  bind_struct<ColorJitter, 3>(
      module, "ColorJitter",
      "Random brightness, contrast and saturation, each by a factor in [1 - x, 1 + x], in random "
      "order. Only flips and Normalize may follow it.",
      {}, member("brightness", &ColorJitter::brightness, "x of the brightness."),
      member("contrast", &ColorJitter::contrast, "x of the contrast."),
      member("saturation", &ColorJitter::saturation, "x of the saturation."));
  bind_struct<Normalize, 2>(
      module, "Normalize",
      "(value / 255 - mean) / std, per channel; a single value applies to all channels.", {},
      member("mean", &Normalize::mean, "One for each channel, or one for all."),
      member("std", &Normalize::std, "One for each channel, or one for all; above 0."))
      .def_static("imagenet", &Normalize::imagenet, "The mean and deviation of ImageNet.");
}

}  // namespace

void bind_transforms(nb::module_& module) {
  bind_resizes(module);
  bind_crops(module);
  bind_colours(module);
  bind_struct<ClassMask, 0>(
      module, "ClassMask",
      "How the pixels of a mask are read as class numbers: the stored numbers, or by the table "
      "`colours`.",
      {}, member("ignore", &ClassMask::ignore, "The label of pixels that padding adds."),
      member("classes", &ClassMask::classes,
             "A label outside [0, classes) other than `ignore` is a fault; 0: none is."),
      member_as<std::vector<ColourValue>>(
          "colours", colour_values, set_colours,
          "((r, g, b), label) of each colour; none: pixels are their labels."));
  bind_struct<Limits, 0>(
      module, "Limits", "Upper bounds for what an encoded field may claim.", {},
      member("max_pixels", &Limits::max_pixels, "Pixels of a picture."),
      member("max_scans", &Limits::max_scans, "Scans of a progressive JPEG."),
      member("max_unpacked_bytes", &Limits::max_unpacked_bytes,
             "Bytes of what is compressed, once unpacked."),
      member("max_ratio", &Limits::max_ratio, "Unpacked bytes for each compressed one."));
}

}  // namespace millrace::python
