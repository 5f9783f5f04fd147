// Losses that compare values: each is a function of one slot's prediction and target, a mean over
// the slot's values, so that slots are simply added up over masks and devices.
#include <algorithm>
#include <string>

#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/loss/detail/losses.h"

namespace millrace::trainer::losses {
namespace {

using Values = std::span<const float>;
// Returns a slot's loss; writes scale times its derivative unless `gradient` is empty.
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
    const bool fits = size > 0 && !input.valid.empty() && size % input.valid.size() == 0 &&
                      input.target.values.size() == size &&
                      (input.gradient.empty() || input.gradient.size() == size);
    if (fits) return;
    throw Error(ErrorCode::kInvalidArgument,
                name_ + " needs a target of the prediction's shape " +
                    nn::shape_text(input.prediction.shape) + " and one flag per slot, got " +
                    std::to_string(input.target.values.size()) + " values and " +
                    std::to_string(input.valid.size()) + " flags");
  }

  std::string name_;
  SlotFunction function_;
};

// A mean of `value(x, y)` with the derivative `slope(x, y)`, both expressions of chunks.
template <typename Value, typename Slope>
double mean(Values x, Values y, float scale, std::span<float> gradient, const Value& value,
            const Slope& slope) {
  const auto count = static_cast<double>(x.size());
  const auto share = static_cast<float>(static_cast<double>(scale) / count);
  if (!gradient.empty()) {
    flat::for_each_chunk([&](auto g, auto a, auto b) { g = share * slope(a, b); }, gradient, x, y);
  }
  return flat::sum_over(value, x, y) / count;
}

double bce_slot(Values x, Values y, float scale, std::span<float> gradient) {
  return mean(
      x, y, scale, gradient,
      [](auto a, auto b) { return a.max(0.0F) - a * b + (-a.abs()).exp().log1p(); },
      [](auto a, auto b) { return a.logistic() - b; });
}

double l1_slot(Values x, Values y, float scale, std::span<float> gradient) {
  return mean(
      x, y, scale, gradient, [](auto a, auto b) { return (a - b).abs(); },
      [](auto a, auto b) { return (a - b).sign(); });
}

double mse_slot(Values x, Values y, float scale, std::span<float> gradient) {
  return mean(
      x, y, scale, gradient, [](auto a, auto b) { return (a - b).square(); },
      [](auto a, auto b) { return 2.0F * (a - b); });
}

// Beyond c a parabola continues the line: min(|d|, c) + (max(|d|, c)^2 - c^2) / 2c.
double berhu_slot(Values x, Values y, float scale, std::span<float> gradient) {
  const float largest = (flat::whole(x) - flat::whole(y)).abs().maxCoeff();
  const float c = std::max(0.2F * largest, 1e-12F);
  return mean(
      x, y, scale, gradient,
      [c](auto a, auto b) {
        return (a - b).abs().min(c) + ((a - b).abs().max(c).square() - c * c) / (2.0F * c);
      },
      [c](auto a, auto b) { return (a - b).sign() * ((a - b).abs() / c).max(1.0F); });
}

double dice_slot(Values x, Values y, float scale, std::span<float> gradient) {
  constexpr double smooth = 1.0;
  const double both = flat::sum_over([](auto a, auto b) { return a.logistic() * b; }, x, y);
  const double total = flat::sum_over([](auto a, auto b) { return a.logistic() + b; }, x, y);
  const double top = 2 * both + smooth;
  const double bottom = total + smooth;
  if (!gradient.empty()) {
    const auto of_target = static_cast<float>(-2.0 / bottom);
    const auto constant = static_cast<float>(top / (bottom * bottom));
    flat::for_each_chunk(
        [&](auto g, auto a, auto b) {
          const flat::Chunk<float> p = a.logistic();
          g = scale * (of_target * b + constant) * p * (1.0F - p);
        },
        gradient, x, y);
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
