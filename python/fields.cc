// pipeline/fields.h as Python classes; a field's name is its key in Pipeline(fields={...}).
#include "pipeline/fields.h"

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "decode/tokenizer.h"
#include "io/opener.h"
#include "python/bind.h"
#include "python/struct_binding.h"
#include "python/transform_class.h"

namespace millrace::python {
namespace {

using decode::DType;
using decode::Interpolation;
using decode::Layout;
using namespace pipeline;

constexpr std::array<Word<DType>, 9> kDTypes = {{{"float32", DType::kFloat32},
                                                 {"bfloat16", DType::kBFloat16},
                                                 {"float16", DType::kFloat16},
                                                 {"uint8", DType::kUInt8},
                                                 {"uint16", DType::kUInt16},
                                                 {"int64", DType::kInt64},
                                                 {"fp32", DType::kFloat32},
                                                 {"bf16", DType::kBFloat16},
                                                 {"fp16", DType::kFloat16}}};
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
      member(
          "values", &ImageField::values,
          "The grey levels are values of their own, such as depths: 16 bits are kept, and pixels "
          "resized to the nearest. With channels=1, \"float32\"."),
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
             "The label of a sample without such a member, or with JSON that has no value there, "
             "which `classes` does not bound; None: that is a fault."));
  bind_struct<FloatsField, 1>(
      module, "Floats",
      "A list of `size` numbers: float32, (N, size). A JSON array (suffix json), or text with "
      "numbers separated by spaces or commas.",
      {}, member("suffixes", &FloatsField::suffixes, kSuffixesDoc),
      member("size", &FloatsField::size, "How many numbers each sample has."),
      member("json_key", &FloatsField::json_key, kJsonDoc),
      member("missing", &FloatsField::missing,
             "Each number of a sample without the member, or with JSON that has no value there; "
             "None: that is a fault."));
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

template <typename T>
auto box_key(const char* name, std::string decode::BoxKeys::*key, const char* doc) {
  return member_as<std::string>(
      name, [key](const T& of) { return of.keys.*key; },
      [key](T& of, std::string given) { of.keys.*key = std::move(given); }, doc);
}

auto stored_form() {
  using Form = Chosen<decode::kBoxFormWords>;
  return member_as<Form>(
      "stored",
      [](const BoxesField& of) { return Form{word_of(of.keys.form, decode::kBoxFormWords)}; },
      [](BoxesField& of, const Form& chosen) {
        of.keys.form = value_of("stored", chosen.text, decode::kBoxFormWords);
      },
      "What the JSON's four numbers are.");
}

void bind_boxes(nb::module_& module) {
  using decode::BoxKeys;
  bind_struct<BoxesField, 2>(
      module, "Boxes",
      "Boxes of the objects in a picture, in pixels of the array that the picture becomes: JSON as "
      "`millrace create --from-json` writes it. They follow the picture's crops, resizes, turns "
      "and "
      "flips, with its random choices; what leaves the picture is cut off. Under the key \"boxes\" "
      "a batch has \"boxes\", float32 (N, most, 4), zeros behind the last box; \"boxes.label\", "
      "int64 (N, most), -1 behind it; \"boxes.count\", int64 (N), how many there are.",
      {},
      member(
          "image", &BoxesField::image,
          "The key of the picture in `fields`. RandAugment and its like, which move pixels where "
          "boxes cannot follow, are refused."),
      member("most", &BoxesField::most, "Of more boxes the largest are kept, in their order."),
      word<decode::kBoxFormWords>("form", &BoxesField::form,
                                  "What the array's four numbers are: \"xyxy\" (left, top, right, "
                                  "bottom), \"xywh\" (COCO's) or \"cxcywh\" (the middle first)."),
      member("classes", &BoxesField::classes,
             "A label outside [0, classes) is a fault; 0 accepts every integer."),
      member("min_share", &BoxesField::min_share,
             "A box of which a smaller share of its area is left in the picture is dropped."),
      member("min_side", &BoxesField::min_side,
             "So is one whose shorter side is then less, in pixels."),
      member("suffixes", &BoxesField::suffixes, kSuffixesDoc),
      box_key<BoxesField>("boxes_key", &BoxKeys::boxes,
                          "Where the JSON has the boxes, a list of lists of four numbers."),
      box_key<BoxesField>("labels_key", &BoxKeys::labels,
                          "Where it has their class numbers; empty: it has none."),
      box_key<BoxesField>(
          "crowds_key", &BoxKeys::crowds,
          "Where it has 1 for boxes of crowds, which are left out, if it has that."),
      stored_form(),
      member("scaled", &BoxesField::scaled,
             "If the JSON says of what width and height the picture was, and it is stored smaller, "
             "its boxes are made smaller, too."),
      member("may_lack", &BoxesField::may_lack,
             "A sample without the JSON has no boxes; else that is a fault."));
}

auto tokenizer_of_text() {
  using File = std::optional<std::string>;
  return member_as<File>(
      "tokenizer",
      [](const TextField& of) { return of.tokenizer ? File(of.tokenizer->url()) : File(); },
      [](TextField& of, const File& file) {
        of.tokenizer = file ? decode::read_tokenizer(io::UrlOpener(), *file) : nullptr;
      },
      "Hugging Face's tokenizer.json, of byte pair encoding, or a .model file of SentencePiece: "
      "values are its tokens' numbers, int64, not bytes.");
}

auto text_mark(const char* name, std::optional<std::int64_t> decode::TokenMarks::*mark,
               const char* doc) {
  using Mark = std::optional<std::int64_t>;
  return member_as<Mark>(
      name, [=](const TextField& of) { return of.marks.*mark; },
      [=](TextField& of, Mark value) { of.marks.*mark = value; }, doc);
}

void bind_texts(nb::module_& module) {
  bind_struct<TextField, 1>(
      module, "Text",
      "A text's UTF-8 bytes, or its tokens, as many as `length`: under the key \"text\" a batch "
      "has \"text\", uint8 (N, length), or int64 with a tokenizer, and \"text.mask\", uint8 (N, "
      "length), 1 where the text is and 0 behind it. What is longer is cut behind a whole "
      "character or token; what the tokenizer adds behind a text stays. Packed tokens, and those "
      "of tokenizers that Text refuses, are made of Raw(text=True) by Tokens.",
      {}, member("length", &TextField::length, "Bytes or tokens of each text."),
      member("suffixes", &TextField::suffixes, kSuffixesDoc),
      member("json_key", &TextField::json_key,
             "A value of the JSON in the member instead, as Raw's."),
      member("padding", &TextField::padding, "What is behind the text; of bytes 0 to 255."),
      member("missing", &TextField::missing,
             "The text of a sample without the member; None: that is a fault."),
      tokenizer_of_text(),
      text_mark("begin", &decode::TokenMarks::begin,
                "A token before each text's, besides those that the tokenizer adds; it counts in "
                "length."),
      text_mark("end", &decode::TokenMarks::end,
                "Likewise behind them: what is cut ends with it. SentencePiece's files add none."));
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

constexpr const char* kPlaceDoc =
    "Where it begins: \"random\", drawn anew in each epoch by the field's name; \"start\"; or "
    "\"middle\", for evaluation.";
constexpr const char* kMayLackDoc =
    "A sample without the member has length 0; else that is a fault.";

auto size_of_pictures() {
  using Size = std::variant<int, std::pair<int, int>>;
  return member_as<Size>(
      "size",
      [](const VideoField& of) {
        const auto [height, width] = of.size;
        return height == width ? Size(height) : Size(std::pair(height, width));
      },
      [](VideoField& of, const Size& given) {
        const int* side = std::get_if<int>(&given);
        if (side != nullptr) return void(of.size = *side);
        const auto [height, width] = std::get<std::pair<int, int>>(given);
        of.size = {height, width};
      },
      "Of each picture, (height, width) or both; proportions are not kept.");
}

void bind_media(nb::module_& module) {
  bind_struct<AudioField, 2>(
      module, "Audio",
      "A part of a sound, WAV or FLAC: under the key \"audio\" a batch has \"audio\", float32 (N, "
      "channels, samples), and \"audio.length\", int64 (N), how many of seconds * rate samples are "
      "sound; zeros are behind them. It needs libsndfile and libsamplerate when millrace is built.",
      {}, member("seconds", &AudioField::seconds, "Length of the part."),
      member("rate", &AudioField::rate, "Samples a second, to which it is resampled."),
      member("channels", &AudioField::channels,
             "1: the mean of all channels; 2: as they are, or one twice."),
      word<decode::kClipPlaceWords>("place", &AudioField::place, kPlaceDoc),
      member("suffixes", &AudioField::suffixes, kSuffixesDoc),
      member("may_lack", &AudioField::may_lack, kMayLackDoc));
  bind_struct<VideoField, 2>(
      module, "Video",
      "A part of a film, MP4 or WebM: under the key \"video\" a batch has \"video\", uint8 (N, "
      "frames, "
      "height, width, 3), and \"video.length\", int64 (N), how many of the pictures are the "
      "film's; "
      "zeros are behind them. It needs FFmpeg's libraries when millrace is built.",
      {}, member("frames", &VideoField::frames, "Pictures of the part."), size_of_pictures(),
      member("rate", &VideoField::rate,
             "Pictures a second, of which each is what the film shows then; 0: those of the film."),
      word<decode::kClipPlaceWords>("place", &VideoField::place, kPlaceDoc),
      member("suffixes", &VideoField::suffixes, kSuffixesDoc),
      member("may_lack", &VideoField::may_lack, kMayLackDoc));
}

}  // namespace

void bind_fields(nb::module_& module) {
  bind_images(module);
  bind_numbers(module);
  bind_boxes(module);
  bind_texts(module);
  bind_media(module);
}

}  // namespace millrace::python
