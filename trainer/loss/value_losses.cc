#include "trainer/loss/value_losses.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/loss_program.h"
#include "trainer/hlo/operations.h"
#include "trainer/loss/counted.h"
#include "trainer/loss/slot_loss.h"

namespace millrace::trainer {
namespace {

class SlotLoss final : public Loss {
 public:
  SlotLoss(std::string name, std::function<double(const LossSlot&)> loss, TargetKind target,
           LossProgram program)
      : name_(std::move(name)),
        loss_(std::move(loss)),
        target_(target),
        program_(std::move(program)) {}

  TargetKind target() const override { return target_; }

  std::optional<hlo::LossResults> stablehlo(const hlo::LossArguments& of) const override {
    if (!program_) return {};
    return program_(of);
  }

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
      sums.loss += of_slot({.prediction = input.prediction.data.subspan(slot * size, size),
                            .target = input.target.values.subspan(slot * size, size),
                            .scale = scale,
                            .gradient = gradient});
      ++sums.num_valid;
    }
    return sums;
  }

 private:
  /// Without the values whose target is NaN.
  double of_slot(const LossSlot& slot) const {
    const Counted counted(slot.prediction, slot.target);
    if (counted.targets().size() == slot.target.size()) return loss_(slot);
    std::vector<float> slopes(slot.gradient.empty() ? 0 : counted.targets().size());
    const double loss = counted.targets().empty() ? 0.0
                                                  : loss_({.prediction = counted.values(),
                                                           .target = counted.targets(),
                                                           .scale = slot.scale,
                                                           .gradient = slopes});
    auto next = slopes.begin();
    for (std::size_t i = 0; i < slot.gradient.size(); ++i)
      slot.gradient[i] = std::isnan(slot.target[i]) ? 0.0F : *next++;
    return loss;
  }

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
  std::function<double(const LossSlot&)> loss_;
  TargetKind target_;
  LossProgram program_;
};

}  // namespace

std::unique_ptr<Loss> make_slot_loss(std::string name, std::function<double(const LossSlot&)> loss,
                                     TargetKind target, LossProgram program) {
  return std::make_unique<SlotLoss>(std::move(name), std::move(loss), target, std::move(program));
}

namespace losses {
namespace {

// A mean of `value(x, y)` with the derivative `slope(x, y)`, both expressions of chunks.
template <typename Value, typename Slope>
double mean(const LossSlot& slot, const Value& value, const Slope& slope) {
  const auto count = static_cast<double>(slot.prediction.size());
  const auto share = static_cast<float>(static_cast<double>(slot.scale) / count);
  if (!slot.gradient.empty()) {
    flat::for_each_chunk([&](auto g, auto a, auto b) { g = share * slope(a, b); }, slot.gradient,
                         slot.prediction, slot.target);
  }
  return flat::sum_over(value, slot.prediction, slot.target) / count;
}

double bce_slot(const LossSlot& slot) {
  return mean(
      slot, [](auto a, auto b) { return a.max(0.0F) - a * b + (-a.abs()).exp().log1p(); },
      [](auto a, auto b) { return a.logistic() - b; });
}

double l1_slot(const LossSlot& slot) {
  return mean(
      slot, [](auto a, auto b) { return (a - b).abs(); },
      [](auto a, auto b) { return (a - b).sign(); });
}

double mse_slot(const LossSlot& slot) {
  return mean(
      slot, [](auto a, auto b) { return (a - b).square(); },
      [](auto a, auto b) { return 2.0F * (a - b); });
}

// Beyond c a parabola continues the line: min(|d|, c) + (max(|d|, c)^2 - c^2) / 2c.
double berhu_slot(const LossSlot& slot) {
  const float largest = (flat::whole(slot.prediction) - flat::whole(slot.target)).abs().maxCoeff();
  const float c = std::max(0.2F * largest, 1e-12F);
  return mean(
      slot,
      [c](auto a, auto b) {
        return (a - b).abs().min(c) + ((a - b).abs().max(c).square() - c * c) / (2.0F * c);
      },
      [c](auto a, auto b) { return (a - b).sign() * ((a - b).abs() / c).max(1.0F); });
}

double dice_slot(const LossSlot& slot) {
  constexpr double smooth = 1.0;
  const double both =
      flat::sum_over([](auto a, auto b) { return a.logistic() * b; }, slot.prediction, slot.target);
  const double total =
      flat::sum_over([](auto a, auto b) { return a.logistic() + b; }, slot.prediction, slot.target);
  const double top = 2 * both + smooth;
  const double bottom = total + smooth;
  if (!slot.gradient.empty()) {
    const auto of_target = static_cast<float>(-2.0 / bottom);
    const auto constant = static_cast<float>(top / (bottom * bottom));
    flat::for_each_chunk(
        [&, scale = slot.scale](auto g, auto a, auto b) {
          const flat::Chunk<float> p = a.logistic();
          g = scale * (of_target * b + constant) * p * (1.0F - p);
        },
        slot.gradient, slot.prediction, slot.target);
  }
  return 1 - top / bottom;
}

// The same in StableHLO.

hlo::LossResults bce_program(const hlo::LossArguments& of) {
  return hlo::mean_of_values(
      of,
      [](const hlo::Tensor& x, const hlo::Tensor& y) {
        return hlo::max(x, 0.0) - x * y + hlo::log1p(hlo::exp(-hlo::abs(x)));
      },
      [](const hlo::Tensor& x, const hlo::Tensor& y) { return hlo::logistic(x) - y; });
}

hlo::LossResults l1_program(const hlo::LossArguments& of) {
  return hlo::mean_of_values(
      of, [](const hlo::Tensor& x, const hlo::Tensor& y) { return hlo::abs(x - y); },
      [](const hlo::Tensor& x, const hlo::Tensor& y) { return hlo::sign(x - y); });
}

hlo::LossResults mse_program(const hlo::LossArguments& of) {
  return hlo::mean_of_values(
      of, [](const hlo::Tensor& x, const hlo::Tensor& y) { return (x - y) * (x - y); },
      [](const hlo::Tensor& x, const hlo::Tensor& y) { return 2.0 * (x - y); });
}

hlo::LossResults berhu_program(const hlo::LossArguments& of) {
  const hlo::CountedTensor only = hlo::counted(of.target);
  const hlo::Tensor error = hlo::abs(of.prediction - only.target);
  std::vector<std::int64_t> values = hlo::dimensions_of(error);
  values.erase(values.begin());
  const hlo::Tensor largest = hlo::largest(hlo::select(only.flags, error, 0.0), values);
  const hlo::Tensor c =
      hlo::to_slots(hlo::max(largest * static_cast<double>(0.2F), 1e-12), error.shape);
  return hlo::mean_of_values(
      of,
      [c](const hlo::Tensor& x, const hlo::Tensor& y) {
        const hlo::Tensor e = hlo::abs(x - y);
        const hlo::Tensor far = hlo::max(e, c);
        return hlo::min(e, c) + (far * far - c * c) / (2.0 * c);
      },
      [c](const hlo::Tensor& x, const hlo::Tensor& y) {
        return hlo::sign(x - y) * hlo::max(hlo::abs(x - y) / c, 1.0);
      });
}

hlo::LossResults dice_program(const hlo::LossArguments& of) {
  const hlo::CountedTensor only = hlo::counted(of.target);
  const hlo::Tensor p = hlo::logistic(of.prediction);
  const auto total = [&](const hlo::Tensor& x) {
    return hlo::sum_of_slots(hlo::select(only.flags, x, 0.0));
  };
  const hlo::Tensor top = 2.0 * total(p * only.target) + 1.0;
  const hlo::Tensor bottom = total(p + only.target) + 1.0;
  const hlo::Tensor has_target = hlo::sum_of_slots(hlo::float32(only.flags));
  return {.loss = hlo::select(hlo::compare(has_target, hlo::Order::kGreater, 0.0),
                              1.0 - top / bottom, 0.0),
          .gradient = [=] {
            const auto wide = [&p](const hlo::Tensor& x) { return hlo::to_slots(x, p.shape); };
            const hlo::Tensor slope =
                wide(-2.0 / bottom) * only.target + wide(top / (bottom * bottom));
            return hlo::select(only.flags, slope * p * (1.0 - p), 0.0);
          }};
}

}  // namespace

const ComponentName Bce::kName = {"bce", "Bce", "Binary cross-entropy of logits"};
const ComponentName Dice::kName = {"dice", "Dice", "1 - Dice of logits, over a sample's values"};
const ComponentName L1::kName = {"l1", "L1", "Mean absolute error"};
const ComponentName Mse::kName = {"mse", "Mse", "Mean squared error"};
const ComponentName BerHu::kName = {"berhu", "BerHu",
                                    "Absolute error, squared beyond a fifth of the largest"};

std::unique_ptr<Loss> Bce::make() const {
  return make_slot_loss("bce", bce_slot, TargetKind::kShares, bce_program);
}
std::unique_ptr<Loss> Dice::make() const {
  return make_slot_loss("dice", dice_slot, TargetKind::kShares, dice_program);
}
std::unique_ptr<Loss> L1::make() const {
  return make_slot_loss("l1", l1_slot, TargetKind::kValues, l1_program);
}
std::unique_ptr<Loss> Mse::make() const {
  return make_slot_loss("mse", mse_slot, TargetKind::kValues, mse_program);
}
std::unique_ptr<Loss> BerHu::make() const {
  return make_slot_loss("berhu", berhu_slot, TargetKind::kValues, berhu_program);
}

}  // namespace losses
}  // namespace millrace::trainer
