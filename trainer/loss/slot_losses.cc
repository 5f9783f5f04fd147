// Losses that compare values: each is a function of one slot's prediction and target, and the mean
// over the slot's values, so that masks and devices only ever add slots up.
#include <algorithm>
#include <cmath>
#include <string>

#include "io/base/error.h"
#include "trainer/loss/detail/losses.h"

namespace millrace::trainer::losses {
namespace {

using Values = std::span<const float>;
// Gives a slot's loss; writes scale times its derivative unless `gradient` is empty.
using SlotFunction = double (*)(Values x, Values y, float scale, std::span<float> gradient);

class SlotLoss final : public Loss {
 public:
  SlotLoss(std::string name, SlotFunction function) : name_(std::move(name)), function_(function) {}

  LossSums evaluate(const LossInput& input) const override {
    check(input);
    LossSums sums;
    const std::size_t size = input.prediction.data.size() / input.valid.size();
    const auto scale = static_cast<float>(1.0 / input.divisor);
    for (std::size_t slot = 0; slot < input.valid.size(); ++slot) {
      std::span<float> gradient;
      if (!input.gradient.empty()) gradient = input.gradient.subspan(slot * size, size);
      if (input.valid[slot] == 0) {
        std::ranges::fill(gradient, 0.0F);
        continue;
      }
      sums.loss += function_(input.prediction.data.subspan(slot * size, size),
                             input.target.values.subspan(slot * size, size), scale, gradient);
      ++sums.num_valid;
    }
    return sums;
  }

 private:
  void check(const LossInput& input) const {
    const std::size_t size = input.prediction.data.size();
    const bool fits = !input.valid.empty() && size % input.valid.size() == 0 &&
                      input.target.values.size() == size &&
                      (input.gradient.empty() || input.gradient.size() == size);
    if (fits) return;
    throw Error(ErrorCode::kInvalidArgument,
                name_ + " needs a target of the prediction's shape " +
                    nn::shape_text(input.prediction.shape) + " and a flag a slot, got " +
                    std::to_string(input.target.values.size()) + " values and " +
                    std::to_string(input.valid.size()) + " flags");
  }

  std::string name_;
  SlotFunction function_;
};

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

// A mean of `value(x, y)` with the derivative `slope(x, y)`.
template <typename Value, typename Slope>
double mean(Values x, Values y, float scale, std::span<float> gradient, const Value& value,
            const Slope& slope) {
  double sum = 0;
  const auto count = static_cast<float>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(value(x[i], y[i]));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = scale * slope(x[i], y[i]) / count;
  }
  return sum / static_cast<double>(x.size());
}

float sign(float x) { return x > 0 ? 1.0F : (x < 0 ? -1.0F : 0.0F); }

double bce_slot(Values x, Values y, float scale, std::span<float> gradient) {
  return mean(
      x, y, scale, gradient,
      [](float a, float b) {
        return std::max(a, 0.0F) - a * b + std::log1p(std::exp(-std::abs(a)));
      },
      [](float a, float b) { return sigmoid(a) - b; });
}

double l1_slot(Values x, Values y, float scale, std::span<float> gradient) {
  return mean(
      x, y, scale, gradient, [](float a, float b) { return std::abs(a - b); },
      [](float a, float b) { return sign(a - b); });
}

double mse_slot(Values x, Values y, float scale, std::span<float> gradient) {
  return mean(
      x, y, scale, gradient, [](float a, float b) { return (a - b) * (a - b); },
      [](float a, float b) { return 2.0F * (a - b); });
}

double berhu_slot(Values x, Values y, float scale, std::span<float> gradient) {
  float largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  const float c = std::max(0.2F * largest, 1e-12F);
  return mean(
      x, y, scale, gradient,
      [c](float a, float b) {
        const float off = std::abs(a - b);
        return off <= c ? off : (off * off + c * c) / (2.0F * c);
      },
      [c](float a, float b) {
        const float off = a - b;
        return std::abs(off) <= c ? sign(off) : off / c;
      });
}

double dice_slot(Values x, Values y, float scale, std::span<float> gradient) {
  constexpr double kSmooth = 1.0;
  double both = 0;
  double total = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double p = static_cast<double>(sigmoid(x[i]));
    both += p * static_cast<double>(y[i]);
    total += p + static_cast<double>(y[i]);
  }
  const double top = 2 * both + kSmooth;
  const double bottom = total + kSmooth;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double p = static_cast<double>(sigmoid(x[i]));
    const double slope = (2 * static_cast<double>(y[i]) * bottom - top) / (bottom * bottom);
    gradient[i] = scale * static_cast<float>(-slope * p * (1 - p));
  }
  return 1 - top / bottom;
}

}  // namespace

std::unique_ptr<Loss> bce(const LossOptions&) {
  return std::make_unique<SlotLoss>("bce", bce_slot);
}
std::unique_ptr<Loss> l1(const LossOptions&) { return std::make_unique<SlotLoss>("l1", l1_slot); }
std::unique_ptr<Loss> mse(const LossOptions&) {
  return std::make_unique<SlotLoss>("mse", mse_slot);
}
std::unique_ptr<Loss> berhu(const LossOptions&) {
  return std::make_unique<SlotLoss>("berhu", berhu_slot);
}
std::unique_ptr<Loss> dice(const LossOptions&) {
  return std::make_unique<SlotLoss>("dice", dice_slot);
}

}  // namespace millrace::trainer::losses
