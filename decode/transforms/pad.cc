#include "decode/transforms/pad.h"

#include "decode/transform_step.h"
#include "decode/transforms/sampled.h"

namespace millrace::decode {
namespace {

class PadStep final : public GeometryStep {
 public:
  explicit PadStep(Pad options) : options_(std::move(options)) {}

  void choose(Geometry& geometry, KeyedRng& /*rng*/) const override {
    geometry.pad(options_.padding, options_.mode, fill_of(options_.fill));
  }

 private:
  Pad options_;
};

}  // namespace

const ComponentName Pad::kName = {"pad", "Pad", "Adds pixels around the picture"};

void Pad::fields(FieldList& field) {
  field("padding", padding, {.min = 0, .max = 65535, .unit = "px"},
        "On each side; left and right, top and bottom; or left, top, right, bottom");
  field("fill", fill, {.min = 0, .max = 255},
        "Level of a constant border, or its red, green and blue");
  field("padding_mode", mode,
        "constant; edge: the outermost pixels; reflect: the mirror image without them; symmetric: "
        "with them");
}

void Pad::check() const { check_fill(fill); }

std::unique_ptr<TransformStep> Pad::make() const { return std::make_unique<PadStep>(*this); }

}  // namespace millrace::decode
