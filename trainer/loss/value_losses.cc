#include "trainer/loss/value_losses.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/loss_program.h"
#include "trainer/hlo/operations.h"
#include "trainer/loss/slot_loss.h"

namespace millrace::trainer {
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

// The derivative at 0 is 0.
double rmse_slot(const LossSlot& slot) {
  const auto count = static_cast<double>(slot.prediction.size());
  const double squares =
      flat::sum_over([](auto a, auto b) { return (a - b).square(); }, slot.prediction, slot.target);
  const double root = std::sqrt(squares / count);
  const double share = root > 0 ? static_cast<double>(slot.scale) / (count * root) : 0.0;
  if (!slot.gradient.empty()) {
    flat::for_each_chunk(
        [share = static_cast<float>(share)](auto g, auto a, auto b) { g = share * (a - b); },
        slot.gradient, slot.prediction, slot.target);
  }
  return root;
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

hlo::LossResults rmse_program(const hlo::LossArguments& of) {
  const hlo::CountedTensor only = hlo::counted(of.target);
  const hlo::Tensor error = hlo::select(only.flags, of.prediction - only.target, 0.0);
  const hlo::Tensor root = hlo::sqrt(hlo::sum_of_slots(error * error) / only.number);
  return {.loss = root, .gradient = [=] {
            const hlo::Tensor some = hlo::compare(root, hlo::Order::kGreater, 0.0);
            const hlo::Tensor share = hlo::select(some, 1.0 / (only.number * root), 0.0);
            return error * hlo::to_slots(share, error.shape);
          }};
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
const ComponentName Rmse::kName = {"rmse", "Rmse", "Root of the mean squared error of a sample"};
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
std::unique_ptr<Loss> Rmse::make() const {
  return make_slot_loss("rmse", rmse_slot, TargetKind::kValues, rmse_program);
}
std::unique_ptr<Loss> BerHu::make() const {
  return make_slot_loss("berhu", berhu_slot, TargetKind::kValues, berhu_program);
}

}  // namespace losses
}  // namespace millrace::trainer
