// pipeline/fields.h as Python classes; a field's name is its key in Pipeline(fields={...}).
#include "pipeline/fields.h"

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/bind.h"
#include "python/struct_binding.h"
#include "python/transform_class.h"

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
constexpr std::array<Word<Interpolation>, 4> kInterpolations = {
    {{"bilinear", Interpolation::kBilinear},
     {"bicubic", Interpolation::kBicubic},
     {"lanczos", Interpolation::kLanczos},
     {"nearest", Interpolation::kNearest}}};

constexpr const char* kSuffixesDoc =
    "\"jpg;png\": the member of the first suffix that a sample has is used.";
constexpr const char* kJsonDoc =
    "Which value of the JSON: a key of the outermost object, or a JSON pointer (\"/boxes/0\"). "
    "Empty: all of it.";
constexpr const char* kLimitsDoc = "Upper bounds for what a file may claim.";

auto dtype_of_array() {
  return member_as<Chosen<kDTypes>>(
      "dtype",
      [](const ArrayField& of) { return Chosen<kDTypes>{word_of(of.output.dtype, kDTypes)}; },
      [](ArrayField& of, const Chosen<kDTypes>& chosen) {
        of.output.dtype = value_of("dtype", chosen.text, kDTypes);
      },
      "Of the batch's array; the stored values must fit.");
}

auto missing_bytes() {
  using Missing = std::optional<BytesOrText>;
  return member_as<Missing>(
      "missing",
      [](const RawField& of) {
        return of.missing ? Missing({.bytes = *of.missing, .is_text = of.text}) : Missing();
      },
      [](RawField& of, Missing given) {
        of.missing.reset();
        if (given) of.missing = std::move(given->bytes);
      },
      "The value of a sample without the member; None: that is a fault.");
}

void bind_images(nb::module_& module) {
  bind_list_struct<ImageField>(
      module, "Image",
      "A picture, decoded and transformed straight into the batch: (N, H, W, C), or (N, C, H, W) "
      "with layout=\"CHW\". Several Images of one member are independent views of it: each draws "
      "its crops, flips and colours by its own name. What is to be cropped alike is PairedImages.",
      "transforms",
      member("transforms", &ImageField::transforms,
             "In this order: crops and resizes, transforms of levels, Normalize; flips anywhere."),
      member("suffixes", &ImageField::suffixes,
             "\"jpg;png\": the member of the first suffix that a sample has is used. Empty: any "
             "format that is known."),
      member("channels", &ImageField::channels, "1 (grey), 3 (RGB) or 4 (RGBA)."),
      word<kDTypes>("dtype", &ImageField::dtype, "Of the batch's array."),
      word<kLayouts>("layout", &ImageField::layout, "\"HWC\" or \"CHW\"."),
      word<kInterpolations>("interpolation", &ImageField::interpolation,
                            "How pictures are resized; \"nearest\" for masks."),
      member("padding", &ImageField::padding,
             "What padded pixels hold, not scaled: nan for targets that have no value there; None: "
             "what level 0 becomes. With \"float32\"."),
      member("palette_indices", &ImageField::palette_indices,
             "A palette PNG gives its indices, not its colours. With channels=1, \"nearest\"."),
      member("classes", &ImageField::classes,
             "The picture is a mask of class numbers. With channels=1, \"int64\", \"nearest\"."),
      member("apply_orientation", &ImageField::apply_orientation,
             "Rotates a JPEG as its Exif orientation says."),
      member("limits", &ImageField::limits, kLimitsDoc),
      member("tolerate_truncated", &ImageField::tolerate_truncated,
             "A JPEG that ends early is decoded as far as it goes; else it is a fault."),
      member("missing", &ImageField::missing,
             "What fills the array of a sample without a picture, as it is, not normalised; None: "
             "that is a fault."),
      member("view", &ImageField::view,
             "Multi-crop: the number of this view, by which it draws; 0 draws by the sample alone. "
             "The views of one member are cut from one decode of the whole picture. None: the "
             "field is decoded by itself, and draws by its name."));
  bind_list_struct<PairedImagesField>(
      module, "PairedImages",
      "Several pictures of one sample under one geometry (a picture and its mask): the images, "
      "and the transforms that all of them get alike. Its key in `fields` is a tuple of their "
      "names.",
      "members",
      member("members", &PairedImagesField::members,
             "Their own transforms change levels, or normalise."),
      member("geometry", &PairedImagesField::geometry, "Crops, resizes and flips."));
}

void bind_numbers(nb::module_& module) {
  bind_struct<LabelField, 1>(
      module, "Label",
      "A class index: int64, (N). A whole number as text, or in JSON (suffix json).", {},
      member("suffixes", &LabelField::suffixes, kSuffixesDoc),
      member("classes", &LabelField::classes,
             "A label outside [0, classes) is a fault; 0 accepts every integer."),
      member("json_key", &LabelField::json_key, kJsonDoc),
      member("missing", &LabelField::missing,
             "The label of a sample without one, which `classes` does not bound; None: that is a "
             "fault."));
  bind_struct<FloatsField, 1>(
      module, "Floats",
      "A list of `size` numbers: float32, (N, size). A JSON array (suffix json), or text with "
      "numbers separated by spaces or commas.",
      {}, member("suffixes", &FloatsField::suffixes, kSuffixesDoc),
      member("size", &FloatsField::size, "How many numbers each sample has."),
      member("json_key", &FloatsField::json_key, kJsonDoc),
      member("missing", &FloatsField::missing,
             "Each number of a sample without the member; None: that is a fault."));
  bind_struct<ArrayField, 1>(
      module, "Array", "A NumPy array (npy) of this shape, converted to `dtype`: (N, *shape).", {},
      member("suffixes", &ArrayField::suffixes, kSuffixesDoc),
      member_as<std::vector<std::int64_t>>(
          "shape", [](const ArrayField& of) { return of.output.shape; },
          [](ArrayField& of, std::vector<std::int64_t> shape) {
            of.output.shape = std::move(shape);
          },
          "Of one sample's array."),
      dtype_of_array(),
      member("missing", &ArrayField::missing,
             "Each value of a sample without the member; None: that is a fault."));
}

}  // namespace

void bind_fields(nb::module_& module) {
  bind_images(module);
  bind_numbers(module);
  bind_struct<RawField, 1>(
      module, "Raw",
      "A member's bytes as they are: a list of bytes, or of str with text=True. A masked slot has "
      "none.",
      {}, member("suffixes", &RawField::suffixes, kSuffixesDoc),
      member("text", &RawField::text, "They are str; bytes that are not UTF-8 are a fault."),
      member("json_key", &RawField::json_key,
             "A value of the JSON in the member instead: a string's text, or a number, list or "
             "object as JSON writes it. Empty: the member itself."),
      member("max_bytes", &RawField::max_bytes, "More of them are a fault."), missing_bytes());
}

}  // namespace millrace::python
