#include "trainer/loss/pixel_cross_entropy.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "trainer/hlo/loss_program.h"
#include "trainer/hlo/operations.h"
#include "trainer/loss/cross_entropy.h"

namespace millrace::trainer::losses {
namespace {

using Labels = std::span<const std::int64_t>;
// (K, P): one row per class, one column per pixel.
using Plane = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Planes = Eigen::Map<const Plane, 0, Eigen::OuterStride<>>;
using Row = Eigen::Array<float, 1, Eigen::Dynamic>;

/// Pixels at a time: few enough for all classes' rows to stay in the cache.
constexpr Eigen::Index kChunk = 512;
constexpr double kSmooth = 1.0;

/// The sums over the counted pixels from which a class's Dice is computed.
struct Overlap {
  double both = 0;       ///< of probabilities where the mask has the class
  double predicted = 0;  ///< of all probabilities
  double wanted = 0;     ///< pixels of the class

  double denominator() const { return predicted + wanted + kSmooth; }
  double dice() const { return (2 * both + kSmooth) / denominator(); }
};

/// The loss in StableHLO, of all slots at once: logits (N, K, H, W), labels (N, H, W).
class PixelProgram {
 public:
  PixelProgram(const PixelCrossEntropy& options, const hlo::LossArguments& of)
      : options_(options),
        logits_(of.prediction),
        softmax_(hlo::softmax_of_classes(logits_)),
        counts_(hlo::compare(of.target, hlo::Order::kNotEqual,
                             static_cast<double>(options.ignore_index))),
        is_label_(hlo::both(hlo::is_class(of.target, logits_.shape), wide(counts_))),
        weights_(class_weights()),
        own_weight_(hlo::sum(hlo::select(is_label_, weights_, 0.0), {1})),
        weight_(hlo::sum(own_weight_, {1, 2})),
        has_any_(hlo::compare(weight_, hlo::Order::kGreater, 0.0)),
        share_(hlo::select(has_any_, 1.0 / weight_, 0.0)) {
    if (options_.dice > 0) add_overlaps();
  }

  hlo::Tensor loss() const {
    const hlo::Tensor distance = wide(softmax_.log_sum) - logits_;
    hlo::Tensor each = hlo::select(is_label_, distance * weights_, 0.0) * (1.0 - smoothing());
    if (smoothing() > 0)
      each = each + hlo::select(wide(counts_), distance * weights_, 0.0) * spread();
    const hlo::Tensor entropy = hlo::sum(each, {1, 2, 3}) * share_;
    if (options_.dice <= 0) return entropy;
    const hlo::Tensor dice = 1.0 - hlo::sum(class_dice_ * class_share_, {1});
    return entropy + hlo::select(has_any_, dice * static_cast<double>(options_.dice), 0.0);
  }

  hlo::Tensor gradient() const {
    const hlo::Tensor own = own_weight_ * (1.0 - smoothing());
    const hlo::Tensor all = hlo::sum(weights_, {1}) * spread();
    const hlo::Tensor factor = hlo::select(counts_, own + all, 0.0);
    const hlo::Tensor label = hlo::select(is_label_, weights_, 0.0) * (1.0 - smoothing());
    const hlo::Tensor rest = hlo::select(wide(counts_), weights_, 0.0) * spread();
    const hlo::Tensor entropy =
        (softmax_.shares * wide(factor) - rest - label) * hlo::to_slots(share_, logits_.shape);
    if (options_.dice <= 0) return entropy;
    return entropy + dice_gradient() * static_cast<double>(options_.dice);
  }

 private:
  double smoothing() const { return static_cast<double>(options_.label_smoothing); }
  double spread() const { return smoothing() / static_cast<double>(logits_.shape[1]); }
  /// Of pixels, (N, H, W), and of a slot's classes, (N, K): along all others.
  hlo::Tensor wide(const hlo::Tensor& pixels) const {
    return hlo::to_classes(pixels, logits_.shape);
  }
  hlo::Tensor of_classes(const hlo::Tensor& x) const {
    return hlo::broadcast(x, logits_.shape, {0, 1});
  }

  hlo::Tensor class_weights() const {
    if (options_.class_weights.empty()) return hlo::splat_like(logits_, 1.0);
    return hlo::along(hlo::constant(*logits_.builder, options_.class_weights, {logits_.shape[1]}),
                      1, logits_.shape);
  }

  void add_overlaps() {
    const auto total = [](const hlo::Tensor& x) { return hlo::sum(x, {2, 3}); };
    const hlo::Tensor predicted = total(hlo::select(wide(counts_), softmax_.shares, 0.0));
    const hlo::Tensor both = total(hlo::select(is_label_, softmax_.shares, 0.0));
    const hlo::Tensor wanted = total(hlo::float32(is_label_));
    const hlo::Tensor occurs = hlo::float32(hlo::compare(wanted, hlo::Order::kGreater, 0.0));
    const hlo::Tensor present = hlo::max(hlo::sum(occurs, {1}), 1.0);
    under_ = predicted + wanted + kSmooth;
    class_dice_ = (2.0 * both + kSmooth) / under_;
    class_share_ = occurs / hlo::to_slots(present, occurs.shape);
    label_share_ = hlo::to_slots(1.0 / present, occurs.shape);
  }

  hlo::Tensor dice_gradient() const {
    const hlo::Tensor slope = class_dice_ / under_ * class_share_;
    const hlo::Tensor of_label = 2.0 / under_ * label_share_;
    const hlo::Tensor each = of_classes(slope) - hlo::select(is_label_, of_classes(of_label), 0.0);
    const hlo::Tensor mean = hlo::sum(softmax_.shares * each, {1});
    const hlo::Tensor all = softmax_.shares * (each - wide(mean));
    const hlo::Tensor in_slots = hlo::float32(has_any_);
    return hlo::select(wide(counts_), all, 0.0) * hlo::to_slots(in_slots, logits_.shape);
  }

  PixelCrossEntropy options_;
  hlo::Tensor logits_;
  hlo::SoftmaxOfClasses softmax_;
  hlo::Tensor counts_;      // flags of pixels
  hlo::Tensor is_label_;    // flags of classes and pixels: the label, if it counts
  hlo::Tensor weights_;     // of classes, for each pixel
  hlo::Tensor own_weight_;  // of pixels
  hlo::Tensor weight_;      // of slots
  hlo::Tensor has_any_;     // flags of slots
  hlo::Tensor share_;
  hlo::Tensor under_, class_dice_, class_share_, label_share_;  // (N, K)
};

class PixelCrossEntropyLoss final : public Loss {
 public:
  explicit PixelCrossEntropyLoss(PixelCrossEntropy options) : options_(std::move(options)) {}

  TargetKind target() const override { return TargetKind::kPixelClasses; }
  std::optional<std::int64_t> ignored_label() const override { return options_.ignore_index; }

  LossSums evaluate(const LossInput& input) const override {
    check(input);
    const std::size_t slots = input.valid.size();
    const std::size_t size = input.prediction.data.size() / slots;
    const std::size_t pixels = input.target.labels.size() / slots;
    LossSums sums;
    for (std::size_t slot = 0; slot < slots; ++slot) {
      std::span<float> gradient;
      if (!input.gradient.empty()) gradient = input.gradient.subspan(slot * size, size);
      if (input.valid[slot] == 0) {
        std::ranges::fill(gradient, 0.0F);
        continue;
      }
      sums.loss += one(input.prediction.data.subspan(slot * size, size),
                       input.target.labels.subspan(slot * pixels, pixels), input.divisor, gradient);
      ++sums.num_valid;
    }
    return sums;
  }

  std::optional<hlo::LossResults> stablehlo(const hlo::LossArguments& of) const override {
    const std::size_t classes = static_cast<std::size_t>(of.prediction.shape.at(1));
    check_class_weights(classes);
    const PixelProgram program(options_, of);
    return hlo::LossResults{.loss = program.loss(),
                            .gradient = [program] { return program.gradient(); }};
  }

 private:
  /// The state of one slot in the two passes.
  struct Slot {
    std::span<const float> logits;
    Labels labels;
    Eigen::Index classes;
    double weight = 0;  ///< of all its counted pixels
    std::vector<Overlap> overlaps = {};

    auto pixels() const { return static_cast<Eigen::Index>(labels.size()); }
  };

  void check(const LossInput& input) const {
    const auto& shape = input.prediction.shape;
    const std::size_t size = input.prediction.data.size();
    const std::size_t classes = shape.size() < 2 ? 0 : static_cast<std::size_t>(shape[1]);
    const bool fits = classes > 0 && input.valid.size() == static_cast<std::size_t>(shape[0]) &&
                      !input.valid.empty() && input.target.labels.size() * classes == size &&
                      (input.gradient.empty() || input.gradient.size() == size);
    if (!fits) {
      throw Error(ErrorCode::kInvalidArgument,
                  "pixel-cross-entropy needs logits (N, K, H, W), N x H x W labels and N flags, "
                  "got logits " +
                      nn::shape_text(shape) + ", " + std::to_string(input.target.labels.size()) +
                      " labels and " + std::to_string(input.valid.size()) + " flags");
    }
    check_class_weights(classes);
    const auto bad =
        first_bad_label(input.target.labels, input.valid, shape[1], options_.ignore_index);
    if (!bad) return;
    throw Error(ErrorCode::kCorrupt, "label " + std::to_string(input.target.labels[*bad]) +
                                         " is not one of the model's " + std::to_string(classes) +
                                         " classes");
  }

  void check_class_weights(std::size_t classes) const {
    require(options_.class_weights.empty() || options_.class_weights.size() == classes,
            std::to_string(options_.class_weights.size()) + " class weights for " +
                std::to_string(classes) + " classes");
  }

  bool counts(std::int64_t label) const { return label != options_.ignore_index; }
  double weight_of(std::int64_t label) const {
    if (options_.class_weights.empty()) return 1.0;
    return static_cast<double>(options_.class_weights[static_cast<std::size_t>(label)]);
  }

  double one(std::span<const float> logits, Labels labels, double divisor,
             std::span<float> gradient) const {
    Slot slot{.logits = logits,
              .labels = labels,
              .classes = static_cast<Eigen::Index>(logits.size() / labels.size())};
    for (const std::int64_t label : labels) slot.weight += counts(label) ? weight_of(label) : 0.0;
    if (slot.weight <= 0) {
      std::ranges::fill(gradient, 0.0F);
      return 0;
    }
    slot.overlaps.resize(options_.dice > 0 ? static_cast<std::size_t>(slot.classes) : 0);
    double loss = 0;
    for (Eigen::Index at = 0; at < slot.pixels(); at += kChunk) loss += forward(slot, at, gradient);
    loss /= slot.weight;
    if (options_.dice > 0) loss += static_cast<double>(options_.dice) * dice_loss(slot);
    for (Eigen::Index at = 0; !gradient.empty() && at < slot.pixels(); at += kChunk)
      backward(slot, at, 1.0 / divisor, gradient);
    return loss;
  }

  // The chunk's loss; its probabilities are stored in the gradient.
  double forward(Slot& slot, Eigen::Index at, std::span<float> gradient) const {
    const Eigen::Index count = std::min(kChunk, slot.pixels() - at);
    const Eigen::OuterStride<> stride(slot.pixels());
    const Planes logits(slot.logits.data() + at, slot.classes, count, stride);
    Row top = logits.row(0);
    for (Eigen::Index k = 1; k < slot.classes; ++k) top = top.max(logits.row(k));
    Plane powers(slot.classes, count);
    Row sum = Row::Zero(count);
    for (Eigen::Index k = 0; k < slot.classes; ++k) {
      powers.row(k) = (logits.row(k) - top).exp();
      sum += powers.row(k);
    }
    const Row log_sum = top + sum.log();
    const Row inverse = sum.inverse();
    for (Eigen::Index k = 0; k < slot.classes; ++k) powers.row(k) *= inverse;
    if (!gradient.empty()) {
      Eigen::Map<Plane, 0, Eigen::OuterStride<>>(gradient.data() + at, slot.classes, count,
                                                 stride) = powers;
    }
    if (!slot.overlaps.empty()) add_overlaps(slot, at, powers);
    return cross_entropy_of(slot, at, logits, log_sum);
  }

  double cross_entropy_of(const Slot& slot, Eigen::Index at, const Planes& logits,
                          const Row& log_sum) const {
    const auto smoothing = static_cast<double>(options_.label_smoothing);
    double loss = 0;
    for (Eigen::Index i = 0; i < logits.cols(); ++i) {
      const std::int64_t label = slot.labels[static_cast<std::size_t>(at + i)];
      if (!counts(label)) continue;
      const auto total = static_cast<double>(log_sum[i]);
      const auto logit = static_cast<double>(logits(label, i));
      loss += (1 - smoothing) * weight_of(label) * (total - logit);
      for (Eigen::Index k = 0; smoothing > 0 && k < slot.classes; ++k)
        loss += smoothing / static_cast<double>(slot.classes) * weight_of(k) *
                (total - static_cast<double>(logits(k, i)));
    }
    return loss;
  }

  void add_overlaps(Slot& slot, Eigen::Index at, const Plane& probabilities) const {
    for (Eigen::Index i = 0; i < probabilities.cols(); ++i) {
      const std::int64_t label = slot.labels[static_cast<std::size_t>(at + i)];
      if (!counts(label)) continue;
      for (Eigen::Index k = 0; k < slot.classes; ++k)
        slot.overlaps[static_cast<std::size_t>(k)].predicted +=
            static_cast<double>(probabilities(k, i));
      Overlap& own = slot.overlaps[static_cast<std::size_t>(label)];
      own.both += static_cast<double>(probabilities(label, i));
      own.wanted += 1;
    }
  }

  static double present(const Slot& slot) {
    return static_cast<double>(std::ranges::count_if(
        slot.overlaps, [](const Overlap& overlap) { return overlap.wanted > 0; }));
  }

  static double dice_loss(const Slot& slot) {
    double sum = 0;
    for (const Overlap& overlap : slot.overlaps) sum += overlap.wanted > 0 ? overlap.dice() : 0.0;
    return 1 - sum / present(slot);
  }

  // Probabilities to gradients, in place.
  void backward(const Slot& slot, Eigen::Index at, double scale, std::span<float> gradient) const {
    const Eigen::Index count = std::min(kChunk, slot.pixels() - at);
    Eigen::Map<Plane, 0, Eigen::OuterStride<>> planes(gradient.data() + at, slot.classes, count,
                                                      Eigen::OuterStride<>(slot.pixels()));
    const Plane dice = slot.overlaps.empty() ? Plane() : dice_gradient(slot, at, planes);
    const double share = scale / slot.weight;
    const double spread =
        static_cast<double>(options_.label_smoothing) / static_cast<double>(slot.classes);
    double all_weights = 0;
    for (Eigen::Index k = 0; k < slot.classes; ++k) all_weights += weight_of(k);
    Row factor(count);
    Row counted(count);
    for (Eigen::Index i = 0; i < count; ++i) {
      const std::int64_t label = slot.labels[static_cast<std::size_t>(at + i)];
      const double own = counts(label) ? own_share(label) : 0.0;
      counted[i] = counts(label) ? 1.0F : 0.0F;
      factor[i] = counts(label) ? static_cast<float>(share * (own + spread * all_weights)) : 0.0F;
    }
    for (Eigen::Index k = 0; k < slot.classes; ++k) {
      const auto rest = static_cast<float>(share * spread * weight_of(k));
      planes.row(k) = planes.row(k) * factor - counted * rest;
    }
    for (Eigen::Index i = 0; i < count; ++i) {
      const std::int64_t label = slot.labels[static_cast<std::size_t>(at + i)];
      if (counts(label)) planes(label, i) -= static_cast<float>(share * own_share(label));
    }
    if (dice.size() > 0) planes += dice * static_cast<float>(scale * options_.dice);
  }

  double own_share(std::int64_t label) const {
    return (1 - static_cast<double>(options_.label_smoothing)) * weight_of(label);
  }

  // d Dice / d logits, through the softmax: p_k (g_k - sum_j p_j g_j).
  Plane dice_gradient(const Slot& slot, Eigen::Index at,
                      const Eigen::Map<Plane, 0, Eigen::OuterStride<>>& probabilities) const {
    const double classes = present(slot);
    Plane result(probabilities.rows(), probabilities.cols());
    Row mean = Row::Zero(probabilities.cols());
    for (Eigen::Index k = 0; k < slot.classes; ++k) {
      const Overlap& overlap = slot.overlaps[static_cast<std::size_t>(k)];
      const double slope =
          overlap.wanted > 0 ? overlap.dice() / overlap.denominator() / classes : 0.0;
      result.row(k).setConstant(static_cast<float>(slope));
    }
    Row counted(probabilities.cols());
    for (Eigen::Index i = 0; i < probabilities.cols(); ++i) {
      const std::int64_t label = slot.labels[static_cast<std::size_t>(at + i)];
      counted[i] = counts(label) ? 1.0F : 0.0F;
      if (!counts(label)) continue;
      const Overlap& overlap = slot.overlaps[static_cast<std::size_t>(label)];
      result(label, i) -= static_cast<float>(2.0 / overlap.denominator() / classes);
    }
    for (Eigen::Index k = 0; k < slot.classes; ++k) mean += probabilities.row(k) * result.row(k);
    for (Eigen::Index k = 0; k < slot.classes; ++k)
      result.row(k) = probabilities.row(k) * (result.row(k) - mean) * counted;
    return result;
  }

  PixelCrossEntropy options_;
};

}  // namespace

const ComponentName PixelCrossEntropy::kName = {
    "pixel-cross-entropy", "PixelCrossEntropy",
    "Cross-entropy of every pixel, and Dice beside it; a class per pixel"};

void PixelCrossEntropy::list_cross_entropy(FieldList& field) {
  list_label_smoothing(field, label_smoothing);
  field("ignore_index", ignore_index, {.min = -1, .max = 65535},
        "The label that loss and measures ignore; -1: none");
  field("class_weights", class_weights, {.min = 0}, "The weight of each class");
}

void PixelCrossEntropy::fields(FieldList& field) {
  list_cross_entropy(field);
  field("dice", dice, {.min = 0}, "The weight of Dice");
}

std::unique_ptr<Loss> PixelCrossEntropy::make() const {
  return std::make_unique<PixelCrossEntropyLoss>(*this);
}

}  // namespace millrace::trainer::losses
