#include "decode/detail/transform_checks.h"

#include <cmath>
#include <optional>
#include <string>

#include "decode/detail/choices.h"
#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr int kMaxSide = 65535;

void check_size(int height, int width) {
  require(height > 0 && width > 0, "a transform's size must be above 0");
  require(height <= kMaxSide && width <= kMaxSide, "a transform's size must be below 65536");
}

bool is_range(const std::array<double, 2>& range) {
  return range[0] > 0 && range[0] <= range[1] && std::isfinite(range[1]);
}

struct Checker {
  const ImageDecoderOptions& options;

  void operator()(const ResizeShort& t) const { check_size(t.size, t.size); }
  void operator()(const ResizeCover& t) const { check_size(t.height, t.width); }
  void operator()(const Resize& t) const {
    check_size(t.height, t.width == 0 ? t.height : t.width);
  }
  void operator()(const CenterCrop& t) const { check_size(t.height, t.width); }
  void operator()(const RandomCrop& t) const {
    check_size(t.height, t.width);
    require(t.padding >= 0 && t.padding <= kMaxSide, "a crop's padding must be in 0 to 65535");
  }
  void operator()(const RandomResizedCrop& t) const {
    check_size(t.size.height, t.size.width);
    require(is_range(t.area), "a random crop's area must be a range above 0");
    require(is_range(t.aspect_ratio), "a random crop's aspect ratio must be a range above 0");
  }
  void operator()(const RandomHorizontalFlip& t) const {
    require(t.probability >= 0 && t.probability <= 1, "a flip's probability must be in 0 to 1");
  }
  void operator()(const ColorJitter& t) const {
    for (const double range : {t.brightness, t.contrast, t.saturation}) {
      require(range >= 0 && std::isfinite(range), "a colour jitter's ranges must be 0 or more");
    }
  }
  void operator()(const Normalize& t) const {
    require(options.dtype == DType::kFloat32 || options.dtype == DType::kBFloat16,
            "only float32 and bfloat16 images can be normalised");
    check_values(t.mean);
    check_values(t.std);
    for (const float value : t.std) require(value > 0, "a normalisation's std must be above 0");
  }
  void check_values(const std::vector<float>& values) const {
    require(values.size() == 1 || values.size() == static_cast<std::size_t>(options.channels),
            "a normalisation has one value, or one per channel");
    for (const float value : values)
      require(std::isfinite(value), "a normalisation must be finite");
  }
};

// Geometry first, then ColorJitter, then Normalize; flips anywhere.
int rank_of(const Transform& transform) {
  if (std::holds_alternative<ColorJitter>(transform)) return 1;
  return std::holds_alternative<Normalize>(transform) ? 2 : 0;
}

void check_order(std::span<const Transform> transforms) {
  int highest = 0;
  for (const Transform& transform : transforms) {
    if (std::holds_alternative<RandomHorizontalFlip>(transform)) continue;
    const int rank = rank_of(transform);
    require(rank >= highest, "crops and resizes come before ColorJitter, and Normalize comes last");
    require(rank == 0 || rank > highest, "ColorJitter and Normalize may be given once each");
    highest = rank;
  }
}

std::optional<OutputSize> fixed_size(const Transform& transform) {
  const auto* resize = std::get_if<Resize>(&transform);
  if (resize != nullptr && resize->width > 0) return OutputSize{resize->height, resize->width};
  if (const auto* t = std::get_if<CenterCrop>(&transform)) return OutputSize{t->height, t->width};
  if (const auto* t = std::get_if<RandomCrop>(&transform)) return OutputSize{t->height, t->width};
  if (const auto* t = std::get_if<RandomResizedCrop>(&transform))
    return OutputSize{t->size.height, t->size.width};
  return {};
}

}  // namespace

void check_transforms(const ImageDecoderOptions& options) {
  require(options.channels == 1 || options.channels == 3 || options.channels == 4,
          "images have 1, 3 or 4 channels");
  require(!options.palette_indices ||
              (options.channels == 1 && options.interpolation == Interpolation::kNearest),
          "palette indices have 1 channel, and are resized to the nearest");
  require(
      !options.classes ||
          (options.channels == 1 && options.interpolation == Interpolation::kNearest &&
           options.dtype == DType::kInt64 && !options.palette_indices &&
           find_transform<ColorJitter>(options.transforms) == nullptr),
      "a mask of classes is int64 with 1 channel, resized to the nearest, its colours unchanged");
  require(
      options.dtype != DType::kUInt16 ||
          (options.channels == 1 && options.interpolation == Interpolation::kNearest &&
           !options.palette_indices && find_transform<ColorJitter>(options.transforms) == nullptr),
      "uint16 images have 1 channel, and are resized to the nearest, their levels unchanged");
  for (const Transform& transform : options.transforms) std::visit(Checker{options}, transform);
  check_order(options.transforms);
}

OutputSize output_size(std::span<const Transform> transforms) {
  for (std::size_t i = transforms.size(); i-- > 0;) {
    const auto size = fixed_size(transforms[i]);
    if (!size) continue;
    // Only resizes of the shorter side and flips follow, whose effect on the size is not random.
    const Geometry rest =
        choose_geometry(transforms.subspan(i + 1), size->width, size->height, SampleId{});
    return {rest.height(), rest.width()};
  }
  throw Error(
      ErrorCode::kInvalidArgument,
      "the transforms leave the image's size open: add a crop, or a Resize to height and width");
}

}  // namespace millrace::decode::detail
