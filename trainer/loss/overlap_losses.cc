#include "trainer/loss/overlap_losses.h"

#include <vector>

#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/loss_program.h"
#include "trainer/hlo/operations.h"
#include "trainer/loss/slot_loss.h"
#include "trainer/loss/value_losses.h"

namespace millrace::trainer::losses {
namespace {

constexpr double kSmoothTversky = 1.0;

// A fraction's top is t + 1, its bottom t + alpha f + beta m + 1, of which the derivative by p is
// alpha + (1 - alpha - beta) y.
double tversky_slot(const Tversky& of, const LossSlot& slot) {
  const auto total = [&](auto value) {
    return flat::sum_over(value, slot.prediction, slot.target);
  };
  const double right = total([](auto a, auto b) { return a.logistic() * b; });
  const double set = total([](auto a, auto) { return a.logistic(); });
  const double wanted = total([](auto, auto b) { return b; });
  const auto alpha = static_cast<double>(of.alpha);
  const auto beta = static_cast<double>(of.beta);
  const double top = right + kSmoothTversky;
  const double bottom = top + alpha * (set - right) + beta * (wanted - right);
  if (!slot.gradient.empty()) {
    const double share = top / (bottom * bottom);
    flat::for_each_chunk(
        [scale = slot.scale, constant = static_cast<float>(alpha * share),
         of_target = static_cast<float>((1 - alpha - beta) * share - 1 / bottom)](auto g, auto a,
                                                                                  auto b) {
          const flat::Chunk<float> p = a.logistic();
          g = scale * (of_target * b + constant) * p * (1.0F - p);
        },
        slot.gradient, slot.prediction, slot.target);
  }
  return 1 - top / bottom;
}

hlo::LossResults tversky_program(const Tversky& of, const hlo::LossArguments& at) {
  const hlo::CountedTensor only = hlo::counted(at.target);
  const hlo::Tensor p = hlo::logistic(at.prediction);
  const auto total = [&](const hlo::Tensor& x) {
    return hlo::sum_of_slots(hlo::select(only.flags, x, 0.0));
  };
  const auto alpha = static_cast<double>(of.alpha);
  const auto beta = static_cast<double>(of.beta);
  const hlo::Tensor right = total(p * only.target);
  const hlo::Tensor top = right + kSmoothTversky;
  const hlo::Tensor bottom = top + alpha * (total(p) - right) + beta * (total(only.target) - right);
  const hlo::Tensor has_target = hlo::sum_of_slots(hlo::float32(only.flags));
  return {.loss = hlo::select(hlo::compare(has_target, hlo::Order::kGreater, 0.0),
                              1.0 - top / bottom, 0.0),
          .gradient = [=] {
            const auto wide = [&p](const hlo::Tensor& x) { return hlo::to_slots(x, p.shape); };
            const hlo::Tensor share = top / (bottom * bottom);
            const hlo::Tensor of_target = (1 - alpha - beta) * share - 1.0 / bottom;
            const hlo::Tensor slope = wide(of_target) * only.target + wide(alpha * share);
            return hlo::select(only.flags, slope * p * (1.0 - p), 0.0);
          }};
}

}  // namespace

const ComponentName BceDice::kName = {"bce-dice", "BceDice", "BCE and Dice of logits, added"};
const ComponentName Tversky::kName = {"tversky", "Tversky",
                                      "As Dice, with weights of what is wrongly set or missed"};

void BceDice::fields(FieldList& field) {
  field("bce", bce, {.min = 0}, "Weight of BCE");
  field("dice", dice, {.min = 0}, "Weight of Dice");
}

void Tversky::fields(FieldList& field) {
  field("alpha", alpha, {.min = 0}, "Weight of values that are wrongly set");
  field("beta", beta, {.min = 0}, "Weight of values that are missed");
}

std::unique_ptr<Loss> BceDice::make() const {
  std::vector<WeightedLoss> parts;
  parts.push_back({Bce().make(), static_cast<double>(bce)});
  parts.push_back({Dice().make(), static_cast<double>(dice)});
  return make_weighted_sum(std::move(parts));
}

std::unique_ptr<Loss> Tversky::make() const {
  return make_slot_loss(
      "tversky", [of = *this](const LossSlot& slot) { return tversky_slot(of, slot); },
      TargetKind::kShares,
      [of = *this](const hlo::LossArguments& at) { return tversky_program(of, at); });
}

}  // namespace millrace::trainer::losses
