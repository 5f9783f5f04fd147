#include "trainer/loss/slot_loss.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "io/base/check.h"
#include "io/base/error.h"
#include "trainer/hlo/loss_program.h"
#include "trainer/hlo/operations.h"
#include "trainer/loss/counted.h"

namespace millrace::trainer {
namespace {

/// What a function is given of a slot.
enum class Places { kCounted, kImage };

class SlotLoss final : public Loss {
 public:
  struct Parts {
    std::string name;
    std::function<double(const LossSlot&)> loss;
    TargetKind target = TargetKind::kValues;
    Places places = Places::kCounted;
    LossProgram program = {};
  };
  explicit SlotLoss(Parts parts) : parts_(std::move(parts)) {}

  TargetKind target() const override { return parts_.target; }

  std::optional<hlo::LossResults> stablehlo(const hlo::LossArguments& of) const override {
    if (!parts_.program) return {};
    check_places(of.prediction.shape);
    return parts_.program(of);
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
                            .gradient = gradient,
                            .shape = std::span(input.prediction.shape).subspan(1)});
      ++sums.num_valid;
    }
    return sums;
  }

 private:
  double of_slot(const LossSlot& slot) const {
    return parts_.places == Places::kImage ? parts_.loss(slot) : of_counted(slot);
  }

  /// Without the values whose target is NaN.
  double of_counted(const LossSlot& slot) const {
    const Counted counted(slot.prediction, slot.target);
    if (counted.targets().size() == slot.target.size()) return parts_.loss(slot);
    std::vector<float> slopes(slot.gradient.empty() ? 0 : counted.targets().size());
    const double loss = counted.targets().empty() ? 0.0
                                                  : parts_.loss({.prediction = counted.values(),
                                                                 .target = counted.targets(),
                                                                 .scale = slot.scale,
                                                                 .gradient = slopes,
                                                                 .shape = slot.shape});
    auto next = slopes.begin();
    for (std::size_t i = 0; i < slot.gradient.size(); ++i)
      slot.gradient[i] = std::isnan(slot.target[i]) ? 0.0F : *next++;
    return loss;
  }

  void check(const LossInput& input) const {
    const std::size_t size = input.prediction.data.size();
    const bool fits = size > 0 && !input.prediction.shape.empty() && !input.valid.empty() &&
                      size % input.valid.size() == 0 && input.target.values.size() == size &&
                      (input.gradient.empty() || input.gradient.size() == size);
    if (fits) return check_places(input.prediction.shape);
    throw Error(ErrorCode::kInvalidArgument,
                parts_.name + " needs a target of the prediction's shape " +
                    nn::shape_text(input.prediction.shape) + " and one flag per slot, got " +
                    std::to_string(input.target.values.size()) + " values and " +
                    std::to_string(input.valid.size()) + " flags");
  }

  /// Of the whole batch: (N, C, H, W).
  void check_places(const nn::Shape& shape) const {
    if (parts_.places != Places::kImage || shape.size() == 4) return;
    throw Error(ErrorCode::kInvalidArgument,
                parts_.name + " is a loss of images (N, C, H, W), got " + nn::shape_text(shape));
  }

  Parts parts_;
};

class WeightedSum final : public Loss {
 public:
  explicit WeightedSum(std::vector<WeightedLoss> parts) : parts_(std::move(parts)) {
    MILLRACE_CHECK(!parts_.empty(), "a sum of no losses");
    for (const WeightedLoss& part : parts_)
      MILLRACE_CHECK(part.loss->target() == target(), "losses of other targets");
  }

  TargetKind target() const override { return parts_.front().loss->target(); }

  LossSums evaluate(const LossInput& input) const override {
    std::vector<float> slopes(input.gradient.size());
    std::ranges::fill(input.gradient, 0.0F);
    LossSums sums;
    for (const WeightedLoss& part : parts_) {
      LossInput own = input;
      own.gradient = slopes;
      const LossSums found = part.loss->evaluate(own);
      sums.loss += part.weight * found.loss;
      sums.num_valid = found.num_valid;
      for (std::size_t i = 0; i < slopes.size(); ++i)
        input.gradient[i] += static_cast<float>(part.weight) * slopes[i];
    }
    return sums;
  }

  std::optional<hlo::LossResults> stablehlo(const hlo::LossArguments& of) const override {
    std::optional<hlo::LossResults> sum;
    for (const WeightedLoss& part : parts_) {
      const auto own = part.loss->stablehlo(of);
      if (!own) return {};
      const hlo::LossResults scaled{
          .loss = own->loss * part.weight,
          .gradient = [slope = own->gradient, weight = part.weight] { return slope() * weight; }};
      sum = sum ? added(*sum, scaled) : scaled;
    }
    return sum;
  }

 private:
  static hlo::LossResults added(const hlo::LossResults& a, const hlo::LossResults& b) {
    return {.loss = a.loss + b.loss,
            .gradient = [one = a.gradient, other = b.gradient] { return one() + other(); }};
  }

  std::vector<WeightedLoss> parts_;
};

}  // namespace

std::unique_ptr<Loss> make_slot_loss(std::string name, std::function<double(const LossSlot&)> loss,
                                     TargetKind target, LossProgram program) {
  return std::make_unique<SlotLoss>(SlotLoss::Parts{.name = std::move(name),
                                                    .loss = std::move(loss),
                                                    .target = target,
                                                    .program = std::move(program)});
}

std::unique_ptr<Loss> make_image_loss(std::string name, std::function<double(const LossSlot&)> loss,
                                      LossProgram program) {
  return std::make_unique<SlotLoss>(SlotLoss::Parts{.name = std::move(name),
                                                    .loss = std::move(loss),
                                                    .places = Places::kImage,
                                                    .program = std::move(program)});
}

std::unique_ptr<Loss> make_weighted_sum(std::vector<WeightedLoss> parts) {
  return std::make_unique<WeightedSum>(std::move(parts));
}

}  // namespace millrace::trainer
