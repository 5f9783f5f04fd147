#include "decode/transforms/random_crop.h"

#include <fmt/format.h>

#include "decode/transform_step.h"
#include "decode/transforms/window.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

constexpr int kMaxCrop = 65535;

class RandomCropStep final : public GeometryStep {
 public:
  explicit RandomCropStep(const RandomCrop& options) : options_(options) {}

  void choose(Geometry& geometry, KeyedRng& rng) const override {
    const auto& [size, padding, mode] = options_;
    const int width = geometry.width() + 2 * padding;
    const int height = geometry.height() + 2 * padding;
    if (size.width > width || size.height > height) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the image ({} x {} with its padding) is smaller than the crop "
                              "({} x {})",
                              width, height, size.width, size.height));
    }
    const int y = random_offset(height, size.height, rng) - padding;
    const int x = random_offset(width, size.width, rng) - padding;
    if (mode == Border::kConstant) return geometry.crop({x, y, size.width, size.height});
    geometry.pad(padding, mode, {});
    geometry.crop({x + padding, y + padding, size.width, size.height});
  }
  std::optional<Extent> output() const override { return options_.size; }
  std::optional<Purpose> purpose() const override { return kCropPurpose; }

 private:
  RandomCrop options_;
};

}  // namespace

const ComponentName RandomCrop::kName = {"rcrop", "RandomCrop",
                                         "A window at a random position of the padded picture"};

void RandomCrop::fields(FieldList& field) {
  field("size", size, {.min = 1, .max = kMaxCrop, .unit = "px"}, "Of the window");
  field.by_name();
  field("padding", padding, {.min = 0, .max = kMaxCrop, .unit = "px"},
        "Pixels that are added on each side");
  field("padding_mode", mode, "Their colour: constant is 0; as of pad");
}

std::unique_ptr<TransformStep> RandomCrop::make() const {
  return std::make_unique<RandomCropStep>(*this);
}

}  // namespace millrace::decode
