#include "trainer/loss/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/detail/flat_math.h"
#include "trainer/hlo/loss_program.h"
#include "trainer/hlo/operations.h"
#include "trainer/loss/value_losses.h"

namespace millrace::trainer::losses {
namespace {

using Logits = std::span<const float>;

// How many classes have a larger logit than `label`; of equal ones the lower index counts as
// larger.
std::size_t rank_of(Logits logits, std::size_t label) {
  const auto x = flat::whole(logits);
  const auto equals = x.head(static_cast<Eigen::Index>(label)) == logits[label];
  return static_cast<std::size_t>((x > logits[label]).count() + equals.count());
}

void check_labels_of(const LossInput& input, std::span<const std::int64_t> labels) {
  const std::int64_t classes = input.prediction.shape[1];
  const auto bad = first_bad_label(labels, input.valid, classes);
  if (!bad) return;
  throw Error(ErrorCode::kCorrupt, "label " + std::to_string(labels[*bad]) + " in slot " +
                                       std::to_string(*bad) + " is not one of the model's " +
                                       std::to_string(classes) + " classes");
}

/// Throws: InvalidArgument, Corrupt: as Loss::evaluate().
void check_classes(const LossInput& input, const std::string& loss) {
  const auto& shape = input.prediction.shape;
  const auto slots = static_cast<std::size_t>(shape.empty() ? 0 : shape[0]);
  const bool fits =
      shape.size() == 2 && input.target.labels.size() == slots && input.valid.size() == slots &&
      (input.gradient.empty() || input.gradient.size() == input.prediction.data.size());
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument,
                loss + " needs logits (N, K), N labels and N flags, got logits " +
                    nn::shape_text(shape) + ", " + std::to_string(input.target.labels.size()) +
                    " labels and " + std::to_string(input.valid.size()) + " flags");
  }
  check_labels_of(input, input.target.labels);
  if (input.target.others.empty() && input.target.shares.empty()) return;
  require(input.target.others.size() == slots && input.target.shares.size() == slots,
          "a mixed target has another label and a share for each slot");
  check_labels_of(input, input.target.others);
}

/// What is wanted of each class, times `hit`: (N, K).
hlo::Tensor wanted(const hlo::LossArguments& of, const hlo::Tensor& is_label, double hit) {
  const hlo::Tensor& logits = of.prediction;
  if (!of.other) return hlo::select(is_label, hlo::splat_like(logits, hit), 0.0);
  const hlo::Tensor share = hlo::to_classes(*of.share, logits.shape);
  const hlo::Tensor is_other = hlo::is_class(*of.other, logits.shape);
  return hlo::select(is_label, share * hit, 0.0) + hlo::select(is_other, (1.0 - share) * hit, 0.0);
}

/// rank_of(), of all slots.
hlo::Tensor rank_of_label(const hlo::Tensor& logits, const hlo::Tensor& logit,
                          const hlo::Tensor& label) {
  const hlo::Tensor own = hlo::to_classes(logit, logits.shape);
  const hlo::Tensor place = hlo::iota(*label.builder, label.type, logits.shape, 1);
  const hlo::Tensor is_before =
      hlo::compare(place, hlo::Order::kLess, hlo::to_classes(label, logits.shape));
  const hlo::Tensor equals = hlo::both(is_before, hlo::compare(logits, hlo::Order::kEqual, own));
  const hlo::Tensor larger = hlo::compare(logits, hlo::Order::kGreater, own);
  return hlo::sum(hlo::float32(larger) + hlo::float32(equals), {1});
}

class CrossEntropyLoss final : public Loss {
 public:
  explicit CrossEntropyLoss(float smoothing) : smoothing_(smoothing) {}

  TargetKind target() const override { return TargetKind::kClass; }
  bool takes_mixtures() const override { return true; }

  LossSums evaluate(const LossInput& input) const override {
    check_classes(input, "cross-entropy");
    const auto classes = static_cast<std::size_t>(input.prediction.shape[1]);
    LossSums sums;
    Eigen::ArrayXf shares(input.prediction.shape[1]);
    for (std::size_t slot = 0; slot < input.valid.size(); ++slot) {
      const Logits logits = input.prediction.data.subspan(slot * classes, classes);
      std::span<float> gradient;
      if (!input.gradient.empty()) gradient = input.gradient.subspan(slot * classes, classes);
      if (input.valid[slot] == 0) {
        std::ranges::fill(gradient, 0.0F);
        continue;
      }
      const auto label = static_cast<std::size_t>(input.target.labels[slot]);
      Slot of = {logits, label, gradient, input.divisor};
      if (!input.target.others.empty()) {
        of.other = static_cast<std::size_t>(input.target.others[slot]);
        of.share = input.target.shares[slot];
      }
      sums += one(of, shares);
    }
    return sums;
  }

  std::optional<hlo::LossResults> stablehlo(const hlo::LossArguments& of) const override {
    const hlo::Tensor logits = of.prediction;  // (N, K)
    const auto classes = static_cast<double>(logits.shape[1]);
    const auto smoothing = static_cast<double>(smoothing_);
    const hlo::SoftmaxOfClasses softmax = hlo::softmax_of_classes(logits);
    const hlo::Tensor is_label = hlo::is_class(of.target, logits.shape);
    const hlo::Tensor logit = hlo::sum(hlo::select(is_label, logits, 0.0), {1});
    hlo::Tensor loss = (softmax.log_sum - mixed_logit(of, logit)) * (1.0 - smoothing);
    if (smoothing > 0) {
      const hlo::Tensor others = softmax.log_sum * classes - hlo::sum(logits, {1});
      loss = loss + others * (smoothing / classes);
    }
    const hlo::Tensor rank = rank_of_label(logits, logit, of.target);
    const auto among = [&](double places) {
      return hlo::both(hlo::compare(rank, hlo::Order::kLess, places), hlo::is_finite(loss));
    };
    return hlo::LossResults{.loss = loss,
                            .gradient =
                                [=] {
                                  const hlo::Tensor own = wanted(of, is_label, 1.0 - smoothing);
                                  if (smoothing == 0) return softmax.shares - own;
                                  return softmax.shares - smoothing / classes - own;
                                },
                            .top1 = among(1),
                            .top5 = among(5)};
  }

 private:
  /// The label's logit, (N), or the mean of a mixture's two.
  static hlo::Tensor mixed_logit(const hlo::LossArguments& of, const hlo::Tensor& logit) {
    if (!of.other) return logit;
    const hlo::Tensor is_other = hlo::is_class(*of.other, of.prediction.shape);
    const hlo::Tensor other = hlo::sum(hlo::select(is_other, of.prediction, 0.0), {1});
    const hlo::Tensor& share = *of.share;
    return hlo::select(hlo::compare(share, hlo::Order::kLess, 1.0),
                       share * logit + (1.0 - share) * other, logit);
  }

  struct Slot {
    Logits logits;
    std::size_t label;
    std::span<float> gradient;
    double divisor;
    std::size_t other = 0;  ///< the label of what is not `label`'s
    float share = 1;        ///< of the target, `label`'s
  };

  // `shares` is scratch memory of the logits' size.
  LossSums one(const Slot& slot, Eigen::ArrayXf& shares) const {
    const Logits logits = slot.logits;
    const float top = flat::whole(logits).maxCoeff();
    const std::span<float> exponentials(shares.data(), logits.size());
    flat::for_each_chunk([top](auto share, auto x) { share = (x - top).exp(); }, exponentials,
                         logits);
    const float sum = shares.sum();
    const float log_sum = top + std::log(sum);
    const float hit = 1.0F - smoothing_;
    const float spread = smoothing_ / static_cast<float>(logits.size());
    double loss = static_cast<double>(hit * (log_sum - logits[slot.label]));
    if (slot.share < 1) {
      const double own = static_cast<double>(slot.share);
      loss = own * loss + (1 - own) * static_cast<double>(hit * (log_sum - logits[slot.other]));
    }
    if (smoothing_ > 0) {
      const double all = static_cast<double>(logits.size()) * static_cast<double>(log_sum);
      loss += static_cast<double>(spread) * (all - flat::total(logits));
    }
    if (!slot.gradient.empty()) {
      const auto scale = static_cast<float>(1.0 / slot.divisor);
      flat::whole(slot.gradient) = scale * (shares / sum - spread);
      slot.gradient[slot.label] -= scale * hit * slot.share;
      if (slot.share < 1) slot.gradient[slot.other] -= scale * hit * (1 - slot.share);
    }
    if (!std::isfinite(loss)) return {.loss = loss, .num_valid = 1};
    const std::size_t rank = rank_of(logits, slot.label);
    return {.loss = loss, .num_valid = 1, .top1 = rank < 1 ? 1 : 0, .top5 = rank < 5 ? 1 : 0};
  }

  float smoothing_;
};

/// Binary cross-entropy of values, with targets made of labels.
class ClassBceLoss final : public Loss {
 public:
  explicit ClassBceLoss(const ClassBce& of) : of_(of), of_values_(Bce().make()) {}

  TargetKind target() const override { return TargetKind::kClass; }
  bool takes_mixtures() const override { return true; }

  LossSums evaluate(const LossInput& input) const override {
    check_classes(input, "class-bce");
    const auto classes = static_cast<std::size_t>(input.prediction.shape[1]);
    const std::vector<float> targets = targets_of(input, classes);
    const double factor = factor_of(classes);
    LossSums sums = of_values_->evaluate({.prediction = input.prediction,
                                          .target = {.values = targets},
                                          .valid = input.valid,
                                          .divisor = input.divisor / factor,
                                          .gradient = input.gradient});
    sums.loss *= factor;
    for (std::size_t slot = 0; slot < input.valid.size(); ++slot) {
      const Logits logits = input.prediction.data.subspan(slot * classes, classes);
      if (input.valid[slot] == 0 || !flat::whole(logits).allFinite()) continue;
      const std::size_t rank = rank_of(logits, static_cast<std::size_t>(input.target.labels[slot]));
      sums.top1 += rank < 1 ? 1 : 0;
      sums.top5 += rank < 5 ? 1 : 0;
    }
    return sums;
  }

  std::optional<hlo::LossResults> stablehlo(const hlo::LossArguments& of) const override {
    const hlo::Tensor logits = of.prediction;  // (N, K)
    const hlo::Tensor is_label = hlo::is_class(of.target, logits.shape);
    const auto values =
        of_values_->stablehlo({.prediction = logits, .target = targets_of(of, is_label)});
    const double factor = factor_of(static_cast<std::size_t>(logits.shape[1]));
    const hlo::Tensor logit = hlo::sum(hlo::select(is_label, logits, 0.0), {1});
    const hlo::Tensor rank = rank_of_label(logits, logit, of.target);
    const auto among = [&](double places) {
      return hlo::both(hlo::compare(rank, hlo::Order::kLess, places), hlo::is_finite(values->loss));
    };
    return hlo::LossResults{
        .loss = values->loss * factor,
        .gradient = [factor, gradient = values->gradient] { return gradient() * factor; },
        .top1 = among(1),
        .top5 = among(5)};
  }

 private:
  double factor_of(std::size_t classes) const {
    return of_.sum_classes ? static_cast<double>(classes) : 1.0;
  }

  /// Of each class of each slot: (N, K).
  std::vector<float> targets_of(const LossInput& input, std::size_t classes) const {
    std::vector<float> targets(input.valid.size() * classes);
    const float hit = 1.0F - of_.label_smoothing;
    const Target& of = input.target;
    for (std::size_t slot = 0; slot < input.valid.size(); ++slot) {
      if (input.valid[slot] == 0) continue;
      float* row = targets.data() + slot * classes;
      const float share = of.others.empty() ? 1.0F : of.shares[slot];
      row[of.labels[slot]] += share * hit;
      if (!of.others.empty()) row[of.others[slot]] += (1.0F - share) * hit;
    }
    const float spread = of_.label_smoothing / static_cast<float>(classes);
    for (float& target : targets) target = at_threshold(target + spread);
    return targets;
  }

  float at_threshold(float target) const {
    if (!of_.threshold) return target;
    return target > *of_.threshold ? 1.0F : 0.0F;
  }

  hlo::Tensor targets_of(const hlo::LossArguments& of, const hlo::Tensor& is_label) const {
    const auto smoothing = static_cast<double>(of_.label_smoothing);
    const auto classes = static_cast<double>(of.prediction.shape[1]);
    const hlo::Tensor targets = wanted(of, is_label, 1.0 - smoothing) + smoothing / classes;
    if (!of_.threshold) return targets;
    return hlo::float32(
        hlo::compare(targets, hlo::Order::kGreater, static_cast<double>(*of_.threshold)));
  }

  ClassBce of_;
  std::unique_ptr<Loss> of_values_;
};

}  // namespace

const ComponentName CrossEntropy::kName = {"cross-entropy", "CrossEntropy",
                                           "Cross-entropy of the softmax; a class per sample"};
const ComponentName ClassBce::kName = {"class-bce", "ClassBce",
                                       "Binary cross-entropy of each class; a class per sample"};

void list_label_smoothing(FieldList& field, float& label_smoothing) {
  field("label_smoothing", label_smoothing, {.min = 0, .max = 1, .open_max = true},
        "Share of the target that is spread over all classes");
}

void CrossEntropy::fields(FieldList& field) { list_label_smoothing(field, label_smoothing); }

std::unique_ptr<Loss> CrossEntropy::make() const {
  return std::make_unique<CrossEntropyLoss>(label_smoothing);
}

void ClassBce::fields(FieldList& field) {
  list_label_smoothing(field, label_smoothing);
  list_classes(field);
}

void ClassBce::list_classes(FieldList& field) {
  field("threshold", threshold, {.min = 0, .max = 1, .open_max = true},
        "A class whose target is above it has the target 1, any other 0; none: as they are");
  field("sum_classes", sum_classes, "The sum over the classes, not their mean");
}

void ClassBce::check() const {
  require(!threshold || *threshold > 0 || label_smoothing == 0,
          "threshold 0 with label_smoothing makes every class's target 1");
}

std::unique_ptr<Loss> ClassBce::make() const { return std::make_unique<ClassBceLoss>(*this); }

}  // namespace millrace::trainer::losses
