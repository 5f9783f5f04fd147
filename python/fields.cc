// pipeline/fields.h as Python classes; a field's name is its key in Pipeline(fields={...}).
#include "pipeline/fields.h"

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "python/bind.h"
#include "python/struct_binding.h"

namespace millrace::python {
namespace {

using decode::DType;
using decode::Interpolation;
using decode::Layout;
using namespace pipeline;

constexpr std::array<Word<DType>, 7> kDTypes = {{{"float32", DType::kFloat32},
                                                 {"bfloat16", DType::kBFloat16},
                                                 {"uint8", DType::kUInt8},
                                                 {"uint16", DType::kUInt16},
                                                 {"int64", DType::kInt64},
                                                 {"fp32", DType::kFloat32},
                                                 {"bf16", DType::kBFloat16}}};
constexpr std::array<Word<Layout>, 2> kLayouts = {{{"HWC", Layout::kHWC}, {"CHW", Layout::kCHW}}};
constexpr std::array<Word<Interpolation>, 2> kInterpolations = {
    {{"bilinear", Interpolation::kBilinear}, {"nearest", Interpolation::kNearest}}};

constexpr std::span<const Word<DType>> dtypes() { return kDTypes; }

void bind_images(nb::module_& module) {
  bind_list_struct<ImageField>(
      module, "Image",
      "A picture, decoded and transformed straight into the batch: (N, H, W, C), or (N, C, H, W) "
      "with layout=\"CHW\".",
      "transforms", member("transforms", &ImageField::transforms),
      member("suffixes", &ImageField::suffixes), member("channels", &ImageField::channels),
      word("dtype", &ImageField::dtype, dtypes()),
      word<ImageField, Layout>("layout", &ImageField::layout, kLayouts),
      word<ImageField, Interpolation>("interpolation", &ImageField::interpolation, kInterpolations),
      member("palette_indices", &ImageField::palette_indices),
      member("classes", &ImageField::classes),
      member("apply_orientation", &ImageField::apply_orientation),
      member("limits", &ImageField::limits),
      member("tolerate_truncated", &ImageField::tolerate_truncated),
      member("missing", &ImageField::missing));
  bind_list_struct<PairedImagesField>(
      module, "PairedImages",
      "Several pictures of one sample under one geometry (a picture and its mask): the images, "
      "and the transforms that all of them get alike. Its key in `fields` is a tuple of their "
      "names.",
      "members", member("members", &PairedImagesField::members),
      member("geometry", &PairedImagesField::geometry));
}

void bind_numbers(nb::module_& module) {
  bind_struct<LabelField, 1>(
      module, "Label",
      "A class index: int64, (N). A label outside [0, classes) is a fault; "
      "0 accepts every integer.",
      {}, member("suffixes", &LabelField::suffixes), member("classes", &LabelField::classes),
      member("json_key", &LabelField::json_key), member("missing", &LabelField::missing));
  bind_struct<FloatsField, 1>(
      module, "Floats", "A list of `size` numbers: float32, (N, size), from JSON or text.", {},
      member("suffixes", &FloatsField::suffixes), member("size", &FloatsField::size),
      member("json_key", &FloatsField::json_key), member("missing", &FloatsField::missing));
  bind_struct<ArrayField, 1>(
      module, "Array", "A NumPy array (npy) of this shape, converted to `dtype`: (N, *shape).", {},
      member("suffixes", &ArrayField::suffixes),
      member_as<std::vector<std::int64_t>>(
          "shape", [](const ArrayField& of) { return of.output.shape; },
          [](ArrayField& of, std::vector<std::int64_t> shape) {
            of.output.shape = std::move(shape);
          }),
      member_as<std::string>(
          "dtype", [](const ArrayField& of) { return word_of(of.output.dtype, dtypes()); },
          [](ArrayField& of, const std::string& text) {
            of.output.dtype = value_of("dtype", text, dtypes());
          }),
      member("missing", &ArrayField::missing));
}

}  // namespace

void bind_fields(nb::module_& module) {
  bind_images(module);
  bind_numbers(module);
  bind_struct<RawField, 1>(
      module, "Raw",
      "A member's bytes as they are: a list of bytes, or of str with text=True. A masked slot has "
      "none.",
      {}, member("suffixes", &RawField::suffixes), member("text", &RawField::text),
      member("json_key", &RawField::json_key), member("max_bytes", &RawField::max_bytes),
      member("missing", &RawField::missing));
}

}  // namespace millrace::python
