#include "decode/transforms/gaussian_blur.h"

#include "decode/detail/neighbours.h"
#include "decode/transform_step.h"
#include "decode/transforms/window.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

class BlurStep final : public PixelStep {
 public:
  explicit BlurStep(const GaussianBlur& options) : options_(options) {}

  void change(Pixels& pixels, KeyedRng& rng) const override {
    detail::blur(pixels, options_.kernel_size, random_between(options_.sigma, rng));
  }

 private:
  GaussianBlur options_;
};

}  // namespace

const ComponentName GaussianBlur::kName = {"blur", "GaussianBlur",
                                           "Blurs by a Gaussian of random width"};

void GaussianBlur::fields(FieldList& field) {
  field("kernel_size", kernel_size, {.min = 1, .max = 255, .unit = "px"},
        "Side of the square that each pixel is a mean of; odd");
  field("sigma", sigma, {.min = 0, .open_min = true, .unit = "px"}, "The Gaussian's deviation");
}

void GaussianBlur::check() const { require(kernel_size % 2 == 1, "kernel_size must be odd"); }

std::unique_ptr<TransformStep> GaussianBlur::make() const {
  return std::make_unique<BlurStep>(*this);
}

}  // namespace millrace::decode
