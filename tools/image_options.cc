#include "tools/image_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <utility>

#include "decode/image_decoder.h"
#include "decode/transforms/center_crop.h"
#include "decode/transforms/letterbox.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/random_resized_crop.h"
#include "decode/transforms/resize.h"
#include "io/base/error.h"
#include "io/base/suggest.h"
#include "io/base/text.h"
#include "io/component/component_text.h"
#include "tools/help.h"
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

/// Most numbers for levels of 0 to 255 are beyond what makes sense for those of 0 to 1.
void check_unit(const std::vector<float>& values, float most, const char* option) {
  for (const float value : values)
    require(!(value > most),
            fmt::format("{} {:.4g}: levels are from 0 to 1 here, so {:.4g} is {:.4g} of 255",
                        option, value, value / 255, value));
}

using decode::GeometryStep;
using decode::Transform;
using decode::TransformKind;

/// A list of transforms with a name. Calls without a size have the picture's.
struct NamedList {
  std::string name;
  std::string calls;
};

std::vector<NamedList> named_lists(const decode::Extent& size) {
  const int padding = std::min(size.height, size.width) / 8;
  return {{"none", ""},
          {"flip", "hflip"},
          {"crop-flip", fmt::format("rcrop(padding={}), hflip", padding)},
          {"rrc-flip", "rrc, hflip"}};
}

/// Whether the call says a size, without a name or with it.
bool says_size(const Written& call) {
  return std::ranges::any_of(
      call.items, [](const Written& one) { return one.name.empty() || one.name == "size"; });
}

/// Adds `size` to a call that has a field of that name, and says none; and to those in its lists.
void give_size(Written& call, const decode::Extent& size) {
  using Kind = Written::Kind;
  for (Written& list : call.items)
    for (Written& held : list.items)
      if (list.kind == Kind::kList && (held.kind == Kind::kCall || held.kind == Kind::kWord))
        give_size(held, size);
  const Component& usual = decode::standard_transforms().at(call);
  const auto fields = usual.type().fields(usual.value());
  const bool takes_size = std::ranges::any_of(fields, [](const Field& field) {
    return field.name == "size" && field.type == &value_type(decode::Extent());
  });
  if (!takes_size || says_size(call)) return;
  Written given = value_type(size).write(&size, ValueType::Form::kWhole);
  given.name = "size";
  given.begin = call.begin;
  given.end = call.end;
  call.kind = Written::Kind::kCall;
  call.items.push_back(std::move(given));
}

/// Windows of roughly the proportions of `size`, so that what is in them is not distorted. Only of
/// a call that says neither.
Transform in_proportion(Transform transform, const Written& call, const decode::Extent& size) {
  const auto* crop = transform.get_if<decode::RandomResizedCrop>();
  const bool says_ratio =
      std::ranges::any_of(call.items, [](const Written& one) { return one.name == "ratio"; });
  if (crop == nullptr || says_ratio) return transform;
  decode::RandomResizedCrop shaped = *crop;
  for (double* ratio : {&shaped.ratio.from, &shaped.ratio.to})
    *ratio *= static_cast<double>(size.width) / size.height;
  return shaped;
}

/// As `interpolation` says, if the crop does not say how it resizes.
Transform interpolated(const Transform& transform, decode::Interpolation interpolation) {
  const auto* crop = transform.get_if<decode::RandomResizedCrop>();
  if (crop == nullptr || crop->interpolation) return transform;
  decode::RandomResizedCrop done = *crop;
  if (interpolation != decode::Interpolation::kBilinear) done.interpolation = interpolation;
  return done;
}

/// Throws: Mistake.
std::vector<Transform> transforms_of(const std::string& text, const decode::Extent& size) {
  std::string calls = text;
  for (const NamedList& list : named_lists(size))
    if (plain_name(text) == plain_name(list.name)) calls = list.calls;
  std::vector<Transform> transforms;
  for (Written& call : written_calls(calls).items) {
    give_size(call, size);
    transforms.push_back(
        in_proportion(Transform(component_of(call, decode::standard_transforms())), call, size));
  }
  return transforms;
}

/// As a checkpoint has it.
std::string recorded(const std::vector<Transform>& transforms, const decode::Extent& size) {
  for (const NamedList& list : named_lists(size))
    if (transforms == transforms_of(list.calls, size)) return list.name;
  std::vector<std::string> calls;
  for (const Transform& transform : transforms) calls.push_back(text(written(transform)));
  return fmt::format("{}", fmt::join(calls, ", "));
}

/// "'rcrop(pading=4)', column 7: rcrop has no 'pading'; did you mean padding?".
std::string problem_in(const std::string& calls, const Mistake& mistake) {
  return fmt::format("'{}', column {}: {}", calls, mistake.begin + 1, mistake.message());
}

/// Refuses what cannot be read, whatever the size.
CLI::Validator transform_calls() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        try {
          static_cast<void>(transforms_of(text, 1));
          return {};
        } catch (const Mistake& mistake) {
          return problem_in(text, mistake);
        }
      },
      "");
}

bool shows_windows(const std::vector<Transform>& transforms) {
  return std::ranges::any_of(transforms, [](const Transform& transform) {
    const auto step = transform.make();
    const auto* geometry = dynamic_cast<const GeometryStep*>(step.get());
    return geometry != nullptr && geometry->scale() == GeometryStep::Scale::kWindows;
  });
}

bool has_own_size(const std::vector<Transform>& transforms) {
  return std::ranges::any_of(transforms, [](const Transform& transform) {
    const auto step = transform.make();
    const auto* geometry = dynamic_cast<const GeometryStep*>(step.get());
    return geometry != nullptr && geometry->output().has_value();
  });
}

void append(std::vector<Transform>& to, const std::vector<Transform>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Throws: InvalidArgument if training sees pictures of another size than the model's.
void check_seen_size(const ImageOptions& images) {
  if (!images.has_size()) return;
  const decode::ImageDecoder trains({.transforms = images.train_transforms(),
                                     .channels = images.channels == 0 ? 3 : images.channels});
  const auto& shape = trains.output().shape;
  const decode::Extent seen(static_cast<int>(shape[0]), static_cast<int>(shape[1]));
  require(seen == images.canvas(), "--augment leaves pictures of " + extent_text(seen) +
                                       ", not of --size " + extent_text(images.size) +
                                       ": add rcrop");
}

}  // namespace

void ImageOptions::declare_shape(CLI::App& app) {
  app.add_option_function<std::string>(
         "--size",
         [this](const std::string& text) {
           size = text == "0" ? decode::Extent() : parse_extent("--size", text);
         },
         "Size of the model's input: N, or height x width [the model's own]")
      ->type_name("N|HxW")
      ->check(in_short_help())
      ->default_function([this] { return has_size() ? extent_text(size) : ""; });
  app.add_option("--channels", channels, "3 for colour, 1 for grey; 0: the model's own")
      ->transform(one_of({"0", "1", "3"}));
}

void ImageOptions::declare_val_size(CLI::App& app) {
  app.add_option_function<std::string>(
         "--val-size",
         [this](const std::string& text) {
           eval_size = text == "0" ? decode::Extent() : parse_extent("--val-size", text);
         },
         "Size of the pictures of evaluations, of this run and of its checkpoints: N, or height x "
         "width [--size]")
      ->type_name("N|HxW")
      ->check(may_change())
      ->check(measures())
      ->default_function([this] { return eval_size.height > 0 ? extent_text(eval_size) : ""; });
}

void ImageOptions::declare_reading(CLI::App& app) {
  app.add_option("--augment", augment,
                 "Random transforms in training, a list of calls: 'rcrop(padding=4), hflip'; 'rrc, "
                 "hflip, jitter(0.4, 0.4)'")
      ->transform(transform_calls())
      ->type_name("CALLS")
      ->check(in_short_help());
  app.add_option("--fit", fit,
                 "How pictures of other sizes become --size, in training and evaluation: cover, "
                 "resized in proportion and cropped; contain, resized in proportion and padded; "
                 "squeeze, both sides resized; none, windows of them as stored [cover; contain for "
                 "masks and depths]")
      ->transform(one_of({"cover", "contain", "squeeze", "none"}, {{"crop", "cover"},
                                                                   {"center", "cover"},
                                                                   {"letterbox", "contain"},
                                                                   {"pad", "contain"},
                                                                   {"squash", "squeeze"},
                                                                   {"stretch", "squeeze"},
                                                                   {"fill", "squeeze"}}));
  app.add_option_function<std::string>(
         "--interpolation",
         [this](const std::string& word) {
           value_type(interpolation)
               .read({.kind = Written::Kind::kWord, .text = word}, &interpolation);
         },
         "How pictures are resized, in training and evaluation: bilinear, bicubic, lanczos, "
         "nearest")
      ->transform(one_of({"bilinear", "bicubic", "lanczos", "nearest"}))
      ->default_function([this] {
        return value_type(interpolation).write(&interpolation, ValueType::Form::kWhole).text;
      });
  app.add_option("--eval-resize", eval_resize,
                 "Evaluation resizes the shorter side to this and crops the middle; 0: its size, "
                 "with rrc 8/7 of it")
      ->transform(whole_number(0, kMaxSide))
      ->check(may_change())
      ->check(measures());
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
  if (fit.empty()) fit = whole ? "contain" : "cover";
  augment = recorded(augmentations(), size);
}

void ImageOptions::settle_as_before() {
  const bool square = size.height == size.width;
  if (augment == "crop-flip") fit = "none";
  if (augment == "rrc-flip" && square) fit = "cover";
  if (fit.empty() || whole) fit = "squeeze";
}

void ImageOptions::check(std::string_view eval_size_option) const {
  require(!whole || fit.empty() || fit == "contain" || fit == "squeeze",
          "--fit " + fit +
              ": masks and depths are predicted for the whole picture: --fit contain or squeeze");
  check_augmentations();
  require(eval_resize == 0 || !whole,
          "--eval-resize: masks and depths are predicted for the whole picture");
  require(eval_resize == 0 || fit != "none", "--eval-resize: --fit none resizes nothing");
  require(eval_resize == 0 || fit != "contain",
          "--eval-resize: --fit contain shows the whole picture, at --size");
  const decode::Extent seen = has_eval_size() ? eval_size : size;
  require(eval_resize == 0 || eval_resize >= std::min(seen.height, seen.width),
          fmt::format("--eval-resize {} is below {} {}", eval_resize,
                      has_eval_size() ? eval_size_option : "--size",
                      std::min(seen.height, seen.width)));
  check_channels(mean, channels, "--mean");
  check_channels(std, channels, "--std");
  constexpr float kMostStd = 10;
  check_unit(mean, 1, "--mean");
  check_unit(std, kMostStd, "--std");
  check_seen_size(*this);
}

std::vector<Transform> ImageOptions::augmentations() const {
  try {
    return transforms_of(augment, has_size() ? size : decode::Extent(1));
  } catch (const Mistake& mistake) {
    throw Error(ErrorCode::kInvalidArgument, "--augment " + problem_in(augment, mistake));
  }
}

void ImageOptions::check_augmentations() const {
  const std::vector<Transform> list = augmentations();
  require(fit != "none" || !shows_windows(list), "--fit none: --augment resizes what it crops");
  for (const Transform& transform : list) {
    const auto step = transform.make();
    const std::string call = "--augment " + text(transform) + ": ";
    require(kind_of(transform) != TransformKind::kScale, call + "--mean and --std normalise");
    const auto* pixels = dynamic_cast<const decode::PixelStep*>(step.get());
    require(!whole || pixels == nullptr || !pixels->moves(),
            call + "it would move pictures, but not their masks and depths");
    const auto* geometry = dynamic_cast<const GeometryStep*>(step.get());
    if (geometry == nullptr) continue;
    require(geometry->scale() != GeometryStep::Scale::kSet,
            call + "--fit and --eval-resize decide how pictures are resized");
    const auto output = geometry->output();
    require(!output || !has_size() || *output == size,
            call + "pictures of another size than --size " + extent_text(size));
  }
  std::vector<Transform> in_order = {decode::CenterCrop{.size = 1}};
  append(in_order, list);
  static_cast<void>(
      decode::ImageDecoder({.transforms = in_order, .channels = channels == 0 ? 3 : channels}));
}

decode::Normalize ImageOptions::normalize() const {
  decode::Normalize normalize = decode::Normalize::imagenet();
  if (channels == 1) normalize = {.mean = {0.5F}, .std = {0.5F}};
  if (!mean.empty()) normalize.mean = mean;
  if (!std.empty()) normalize.std = std;
  return normalize;
}

trainer::hlo::Normalisation ImageOptions::of_bytes() const {
  const decode::Normalize values = normalize();
  const auto each = [this](const std::vector<float>& some) {
    return some.size() == 1 ? std::vector<float>(static_cast<std::size_t>(channels), some[0])
                            : some;
  };
  return {.mean = each(values.mean), .deviation = each(values.std)};
}

decode::Extent ImageOptions::canvas() const {
  const auto padded = [this](int side) {
    return (side + multiple_of - 1) / multiple_of * multiple_of;
  };
  return {padded(size.height), padded(size.width)};
}

decode::Box ImageOptions::content(const decode::Extent& stored) const {
  decode::Geometry geometry(stored.width, stored.height);
  KeyedRng unused({});  // nothing in evaluation is random
  for (const Transform& transform : of_kind(eval_transforms(), TransformKind::kGeometry))
    dynamic_cast<const GeometryStep&>(*transform.make()).choose(geometry, unused);
  return geometry.content();
}

/// What all images end with.
std::vector<Transform> ImageOptions::finished(std::vector<Transform> geometry,
                                              std::vector<Transform> levels) const {
  const decode::Extent padded = canvas();
  if (padded != size) geometry.emplace_back(decode::CenterCrop{.size = padded});
  append(geometry, levels);
  geometry.emplace_back(normalize());
  return geometry;
}

/// The resize that `fit` asks for.
std::vector<Transform> ImageOptions::fitted(const decode::Extent& to) const {
  const auto how = interpolation == decode::Interpolation::kBilinear ? std::nullopt
                                                                     : std::optional(interpolation);
  if (fit == "contain") return {decode::Letterbox{.size = to, .interpolation = how}};
  if (fit == "squeeze") return {decode::Resize{.size = to, .interpolation = how}};
  if (fit == "none") return {};
  return {decode::ResizeCover{.size = to, .interpolation = how}};
}

std::vector<Transform> ImageOptions::train_transforms() const {
  const std::vector<Transform> list = augmentations();
  std::vector<Transform> geometry;
  if (!shows_windows(list)) geometry = fitted(size);
  if (!has_own_size(list)) geometry.emplace_back(decode::CenterCrop{.size = size});
  for (const Transform& one : of_kind(list, TransformKind::kGeometry))
    geometry.push_back(interpolated(one, interpolation));
  return finished(std::move(geometry), of_kind(list, TransformKind::kPixels));
}

decode::Extent ImageOptions::eval_extent() const {
  if (whole || fit == "contain") return size;
  const int shorter = std::min(size.height, size.width);
  if (eval_resize > 0)
    return {size.height * eval_resize / shorter, size.width * eval_resize / shorter};
  if (shows_windows(augmentations())) return {size.height * 8 / 7, size.width * 8 / 7};
  return size;
}

ImageOptions ImageOptions::for_evaluation() const {
  if (!has_eval_size()) return *this;
  ImageOptions seen = *this;
  seen.size = eval_size;
  seen.eval_size = {};
  const decode::Extent resized = seen.eval_extent();
  if (resized != seen.size) seen.eval_resize = std::min(resized.height, resized.width);
  seen.augment = "none";
  return seen;
}

void ImageOptions::evaluate_at(const decode::Extent& side) {
  const decode::Extent before = has_eval_size() ? eval_size : size;
  eval_size = side;
  eval_resize = static_cast<int>(std::int64_t{eval_resize} * std::min(side.height, side.width) /
                                 std::min(before.height, before.width));
}

std::vector<Transform> ImageOptions::eval_transforms() const {
  if (has_eval_size()) return for_evaluation().eval_transforms();
  std::vector<Transform> geometry = fitted(eval_extent());
  geometry.emplace_back(decode::CenterCrop{.size = size});
  return finished(std::move(geometry));
}

std::vector<Transform> ImageOptions::transforms(bool training, decode::DType dtype) const {
  std::vector<Transform> all = training ? train_transforms() : eval_transforms();
  if (dtype == decode::DType::kUInt8)
    std::erase_if(all, [](const Transform& one) { return kind_of(one) == TransformKind::kScale; });
  return all;
}

}  // namespace millrace::tools
