// LossObjective::score() in StableHLO: the same sums, in the same places.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "pipeline/mixup.h"
#include "trainer/hlo/loss_program.h"
#include "trainer/hlo/operations.h"
#include "trainer/hlo/score_program.h"
#include "trainer/objective.h"

namespace millrace::trainer {
namespace {

hlo::Tensor total(const hlo::Tensor& x) { return hlo::sum(x, hlo::dimensions_of(x)); }
/// How many flags are set.
hlo::Tensor count(const hlo::Tensor& flags) { return total(hlo::float32(flags)); }

/// Values without dimensions as one vector.
hlo::Tensor joined(const std::vector<hlo::Tensor>& values) {
  std::vector<hlo::Tensor> parts;
  for (const hlo::Tensor& value : values) parts.push_back(hlo::reshape(value, {1}));
  return hlo::concatenate(parts, 0);
}

/// What a head's measures are computed of.
struct HeadTensors {
  hlo::Tensor output;
  hlo::Tensor target;
  hlo::Tensor valid;  ///< flags of slots
  hlo::Tensor loss;   ///< the sum over valid slots
};

/// As MaskCounts: pixels that both, only the output, only the target and neither have.
hlo::Tensor mask_sums(const HeadTensors& of) {
  const hlo::CountedTensor only = hlo::counted(of.target);
  const hlo::Tensor counts = hlo::both(only.flags, hlo::to_slots(of.valid, of.output.shape));
  const hlo::Tensor predicted = hlo::compare(of.output, hlo::Order::kGreater, 0.0);
  const hlo::Tensor wanted = hlo::compare(only.target, hlo::Order::kGreater, 0.5);
  const auto cells = [&](const hlo::Tensor& a, const hlo::Tensor& b) {
    return count(hlo::both(counts, hlo::both(a, b)));
  };
  return joined({cells(predicted, wanted), cells(predicted, hlo::inverse(wanted)),
                 cells(hlo::inverse(predicted), wanted),
                 cells(hlo::inverse(predicted), hlo::inverse(wanted))});
}

hlo::Tensor rmse_sums(const HeadTensors& of) {
  const hlo::CountedTensor only = hlo::counted(of.target);
  const hlo::Tensor counts = hlo::both(only.flags, hlo::to_slots(of.valid, of.output.shape));
  const hlo::Tensor error = of.output - only.target;
  return joined({total(hlo::select(counts, error * error, 0.0)), count(counts)});
}

/// As ClassCounts, each (K): of classes right, predicted, wanted.
struct ClassTensors {
  hlo::Tensor both, predicted, wanted;
};

/// The first of the largest is the prediction.
ClassTensors class_tensors(const HeadTensors& of, std::int64_t ignored) {
  const hlo::Tensor& logits = of.output;  // (N, K, H, W)
  hlo::Builder& builder = *logits.builder;
  const hlo::Shape pixels = of.target.shape;
  const hlo::Tensor counts = hlo::to_classes(
      hlo::both(hlo::compare(of.target, hlo::Order::kNotEqual, static_cast<double>(ignored)),
                hlo::to_slots(of.valid, pixels)),
      logits.shape);
  const hlo::Tensor is_top = hlo::compare(logits, hlo::Order::kEqual,
                                          hlo::to_classes(hlo::largest(logits, {1}), logits.shape));
  // From the number of classes down to 1, so that the first is the largest.
  const hlo::Tensor place = static_cast<double>(logits.shape[1]) -
                            hlo::iota(builder, hlo::Type::kFloat32, logits.shape, 1);
  const hlo::Tensor ranked = hlo::select(is_top, place, 0.0);
  const hlo::Tensor first = hlo::to_classes(hlo::largest(ranked, {1}), logits.shape);
  const hlo::Tensor predicted = hlo::both(hlo::compare(place, hlo::Order::kEqual, first), counts);
  const hlo::Tensor wanted = hlo::both(hlo::is_class(of.target, logits.shape), counts);
  const auto by_class = [](const hlo::Tensor& flags) {
    return hlo::sum(hlo::float32(flags), {0, 2, 3});
  };
  return {by_class(hlo::both(predicted, wanted)), by_class(predicted), by_class(wanted)};
}

/// The sums of a head's metric; none for one that needs records.
std::optional<hlo::Tensor> metric_sums(Metric metric, const HeadTensors& of, const Loss& loss) {
  if (metric == Metric::kAuroc) return {};
  if (metric == Metric::kRmse) return rmse_sums(of);
  if (metric == Metric::kIou) return mask_sums(of);
  const ClassTensors classes = class_tensors(of, loss.ignored_label().value_or(-1));
  if (metric == Metric::kPixelAccuracy) return joined({total(classes.both), total(classes.wanted)});
  return hlo::concatenate({classes.both, classes.predicted, classes.wanted}, 0);
}

hlo::LossArguments arguments_of(const Head& head, const HeadTensors& tensors,
                                const hlo::ScoreArguments& of) {
  hlo::LossArguments arguments{.prediction = tensors.output,
                               .target = tensors.target,
                               .valid = of.valid,
                               .training = of.gradients};
  if (!head.mixes || !of.gradients) return arguments;
  arguments.other = of.targets.at(pipeline::other_label_field(head.target));
  arguments.share = of.targets.at(pipeline::label_share_field(head.target));
  return arguments;
}

/// d (the head's weighted loss / divisor) / d output.
hlo::Tensor weighted(const hlo::Tensor& slope, const HeadTensors& of, double weight,
                     const hlo::Tensor& divisor) {
  return hlo::select(hlo::to_slots(of.valid, slope.shape), slope * (weight / divisor), 0.0);
}

void add_gradient(std::optional<hlo::Tensor>& to, const hlo::Tensor& more) {
  to = to ? *to + more : more;
}

}  // namespace

std::optional<hlo::ScoreResults> Objective::stablehlo(const hlo::ScoreArguments& /*of*/) const {
  return {};
}

std::optional<hlo::ScoreResults> LossObjective::stablehlo(const hlo::ScoreArguments& of) const {
  hlo::Builder& builder = *of.valid.builder;
  hlo::ScoreResults results;
  results.gradients.resize(of.outputs.size());
  std::vector<HeadTensors> heads;
  std::array<hlo::Tensor, 3> first;  // loss, top1, top5
  first.fill(hlo::scalar(builder, 0.0));
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    const Head& head = options_.heads[i];
    const hlo::Scope scope(builder, "loss." + (head.name.empty() ? std::to_string(i) : head.name));
    HeadTensors tensors{of.outputs.at(head.output), of.targets.at(head.target), of.valid, {}};
    const auto loss = losses_[i]->stablehlo(arguments_of(head, tensors, of));
    if (!loss)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("loss {} has no StableHLO", head.loss.type().name().word));
    tensors.loss = total(hlo::select(of.valid, loss->loss, 0.0));
    first[0] = first[0] + tensors.loss * head.weight;
    if (loss->top1) first[1] = first[1] + count(hlo::both(*loss->top1, of.valid));
    if (loss->top5) first[2] = first[2] + count(hlo::both(*loss->top5, of.valid));
    if (of.gradients)
      add_gradient(results.gradients[head.output],
                   weighted(loss->gradient(), tensors, head.weight, of.divisor));
    heads.push_back(tensors);
  }
  std::vector<hlo::Tensor> rows{joined({first.begin(), first.end()})};
  for (const Part& part : parts_) {
    if (part.first < 3) continue;
    const hlo::Scope scope(builder, "measures." + part.name);
    const HeadTensors& head = heads[part.head];
    const auto sums = part.kind == Part::Kind::kMean
                          ? joined({head.loss})
                          : metric_sums(part.metric, head, *losses_[part.head]);
    if (sums) rows.push_back(*sums);
  }
  results.sums = hlo::concatenate(rows, 0);
  return results;
}

}  // namespace millrace::trainer
