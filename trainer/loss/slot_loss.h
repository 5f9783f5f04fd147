// make_slot_loss, make_value_loss, make_image_loss, make_weighted_sum: losses of values from
// functions, and from one another.
//
//   std::unique_ptr<Loss> make() const {                       // Huber's
//     return make_value_loss("huber", [d = delta](float x, float y) -> LossPoint {
//       const float e = x - y;
//       if (std::abs(e) <= d) return {.loss = e * e / 2, .slope = e};
//       return {.loss = d * (std::abs(e) - d / 2), .slope = std::copysign(d, e)};
//     });
//   }
//
// Threads: pure functions. The functions that are passed are called from many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/loss/loss.h"

namespace millrace::trainer {

/// One slot: a value of the target for each of the prediction. Those whose target is NaN are left
/// out before, so that there may be fewer than the prediction has; not for an image loss.
struct LossSlot {
  std::span<const float> prediction;
  std::span<const float> target;
  float scale = 1.0F;
  /// Overwritten with scale * d loss / d prediction; empty in evaluation.
  std::span<float> gradient = {};
  std::span<const std::int64_t> shape = {};  ///< the whole prediction's: (C, H, W), or (F)
};

/// A loss in a compiled program: trainer/hlo/loss_program.h.
using LossProgram = std::function<hlo::LossResults(const hlo::LossArguments&)>;

/// The sum of a function of each valid slot, which returns the slot's loss and fills its gradient:
/// so slots are simply added up over batches and devices. Without `program` no compiled step can
/// have it.
std::unique_ptr<Loss> make_slot_loss(std::string name, std::function<double(const LossSlot&)> loss,
                                     TargetKind target = TargetKind::kValues,
                                     LossProgram program = {});

/// The same for a function of images, where places count: it finds all of them, the target NaN
/// where there is no value, and has to leave those out. The loss throws InvalidArgument for
/// features.
std::unique_ptr<Loss> make_image_loss(std::string name, std::function<double(const LossSlot&)> loss,
                                      LossProgram program = {});

struct WeightedLoss {
  std::unique_ptr<Loss> loss;
  double weight = 1.0;
};
/// Their weighted sum, slot by slot. Requires: losses of values, at least one, whose targets are of
/// one kind.
std::unique_ptr<Loss> make_weighted_sum(std::vector<WeightedLoss> parts);

/// The loss of one value, and its derivative by the prediction.
struct LossPoint {
  float loss = 0.0F;
  float slope = 0.0F;
};

/// A slot's mean of a function of prediction and target: LossPoint(float, float).
template <typename Function>
std::unique_ptr<Loss> make_value_loss(std::string name, Function function,
                                      TargetKind target = TargetKind::kValues,
                                      LossProgram program = {}) {
  return make_slot_loss(
      std::move(name),
      [function = std::move(function)](const LossSlot& slot) {
        const auto count = static_cast<double>(slot.prediction.size());
        const auto share = static_cast<float>(static_cast<double>(slot.scale) / count);
        double sum = 0.0;
        for (std::size_t i = 0; i < slot.prediction.size(); ++i) {
          const LossPoint point = function(slot.prediction[i], slot.target[i]);
          sum += static_cast<double>(point.loss);
          if (!slot.gradient.empty()) slot.gradient[i] = share * point.slope;
        }
        return sum / count;
      },
      target, std::move(program));
}

}  // namespace millrace::trainer
