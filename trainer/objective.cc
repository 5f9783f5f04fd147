#include "trainer/objective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "io/base/error.h"
#include "pipeline/mixup.h"
#include "trainer/loss/counted.h"
#include "trainer/metrics.h"

namespace millrace::trainer {
namespace {

Target target_of(const pipeline::Batch& batch, const std::string& name) {
  const pipeline::BatchField& field = batch.field(name);
  switch (field.spec.dtype) {
    case decode::DType::kInt64:
      return {.labels = field.as<std::int64_t>()};
    case decode::DType::kFloat32:
      return {.values = field.as<float>()};
    default:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "target field " + name + " is neither int64 nor float32");
}

/// The second label and its share, in batches that have them: those of evaluation do not.
void add_mixture(const pipeline::Batch& batch, const std::string& name, Target& target) {
  const auto other = pipeline::other_label_field(name);
  if (std::ranges::find(batch.fields, other, &pipeline::BatchField::name) == batch.fields.end())
    return;
  target.others = batch.field(other).as<std::int64_t>();
  target.shares = batch.field(pipeline::label_share_field(name)).as<float>();
}

// A label outside the classes is reported with the sample's key, which the loss does not have.
void check_labels(const pipeline::Batch& batch, const Target& target, std::int64_t classes,
                  std::optional<std::int64_t> ignore) {
  const auto bad = first_bad_label(target.labels, batch.valid, classes, ignore);
  if (!bad) return;
  const std::size_t slot = *bad / (target.labels.size() / batch.valid.size());
  throw Error(
      ErrorCode::kInvalidArgument,
      "label " + std::to_string(target.labels[*bad]) + " is outside the model's " +
          std::to_string(classes) + " classes",
      {.key = slot < batch.keys.size() ? batch.keys[slot] : std::string(), .stage = "loss"});
}

/// The first value of a valid slot that `is_bad`; nullopt if there is none.
template <typename IsBad>
std::optional<std::size_t> first_bad_value(const pipeline::Batch& batch,
                                           std::span<const float> values, const IsBad& is_bad) {
  const std::size_t width = values.size() / static_cast<std::size_t>(batch.size);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (is_bad(values[i]) && batch.valid[i / width] != 0) return i;
  return std::nullopt;
}

[[noreturn]] void refuse_target(const pipeline::Batch& batch, const Target& target, std::size_t at,
                                const std::string& what) {
  const std::size_t slot = at * static_cast<std::size_t>(batch.size) / target.values.size();
  throw Error(
      ErrorCode::kCorrupt, what,
      {.key = slot < batch.keys.size() ? batch.keys[slot] : std::string(), .stage = "loss"});
}

// The loss of a target that is not finite says nothing about the model.
void check_finite_target(const pipeline::Batch& batch, const Target& target, const Head& head) {
  const auto bad = first_bad_value(batch, target.values, [&head](float value) {
    return !std::isfinite(value) && !(head.may_lack_targets && std::isnan(value));
  });
  if (bad)
    refuse_target(batch, target, *bad,
                  fmt::format("{} {} is not finite", head.target, target.values[*bad]));
}

// A target outside [0, 1] is reported with the sample's key: a mask of 255s instead of 1s.
void check_shares(const pipeline::Batch& batch, const Target& target, const Head& head) {
  constexpr float kMost = 1.0F + 1e-4F;  // 255 / 255, rounded
  const auto bad = first_bad_value(batch, target.values, [&head](float value) {
    return !(value >= 0.0F && value <= kMost) && !(head.may_lack_targets && std::isnan(value));
  });
  if (bad)
    refuse_target(
        batch, target, *bad,
        fmt::format("{} {:.4g} is not between 0 and 1", head.target, target.values[*bad]));
}

void check_target(const pipeline::Batch& batch, const Target& target, const Loss& loss,
                  const Head& head, std::int64_t classes) {
  switch (loss.target()) {
    case TargetKind::kClass:
    case TargetKind::kPixelClasses:
      return check_labels(batch, target, classes, loss.ignored_label());
    case TargetKind::kShares:
      return check_shares(batch, target, head);
    case TargetKind::kValues:
      return check_finite_target(batch, target, head);
    case TargetKind::kSamples:
      return;
  }
}

const char* name_of(Metric metric) {
  switch (metric) {
    case Metric::kAuroc:
      return "auroc";
    case Metric::kIou:
      return "iou";
    case Metric::kRmse:
      return "rmse";
    case Metric::kMiou:
      return "miou";
    case Metric::kPixelAccuracy:
      return "pixel_accuracy";
  }
  return "";
}

std::ptrdiff_t heads_with(Metric metric, const std::vector<Head>& heads) {
  return std::count_if(heads.begin(), heads.end(), [&](const Head& head) {
    return std::find(head.metrics.begin(), head.metrics.end(), metric) != head.metrics.end();
  });
}

std::size_t sums_of(Metric metric, const Head& head) {
  switch (metric) {
    case Metric::kAuroc:
      return 0;
    case Metric::kIou:
      return 4;
    case Metric::kRmse:
    case Metric::kPixelAccuracy:
      return 2;
    case Metric::kMiou:
      return 3 * static_cast<std::size_t>(head.classes);
  }
  return 0;
}

/// One valid sample's values of an output, and its target's.
template <typename Visit>
void for_each_sample(const pipeline::Batch& batch, const nn::OutputView& output,
                     std::span<const float> target, const Visit& visit) {
  const auto size = static_cast<std::size_t>(batch.size);
  const std::size_t width = output.data.size() / size;
  for (std::size_t i = 0; i < size; ++i) {
    if (batch.valid[i] != 0) {
      visit(output.data.subspan(i * width, width), target.subspan(i * width, width));
    }
  }
}

// The four sums of iou.
void add_mask(std::span<const float> logits, std::span<const float> target,
              std::span<double> sums) {
  MaskCounts counts;
  counts.add(logits, target);
  sums[0] += counts.both;
  sums[1] += counts.only_predicted;
  sums[2] += counts.only_target;
  sums[3] += counts.neither;
}

std::int64_t ignored_by(const Loss& loss) { return loss.ignored_label().value_or(-1); }

ClassCounts count_classes(const pipeline::Batch& batch, const nn::OutputView& output,
                          std::span<const std::int64_t> labels, std::int64_t ignored) {
  ClassCounts counts(static_cast<std::size_t>(output.shape.at(1)));
  const auto size = static_cast<std::size_t>(batch.size);
  const std::size_t width = output.data.size() / size;
  const std::size_t pixels = labels.size() / size;
  for (std::size_t i = 0; i < size; ++i) {
    if (batch.valid[i] != 0)
      counts.add(output.data.subspan(i * width, width), labels.subspan(i * pixels, pixels),
                 ignored);
  }
  return counts;
}

// The sums of miou: one row after the other.
void add_class_counts(const ClassCounts& counts, std::span<double> sums) {
  auto to = sums.begin();
  for (const auto* row : {&counts.both, &counts.predicted, &counts.wanted})
    for (const double count : *row) *to++ += count;
}

ClassCounts class_counts_of(std::span<const double> sums) {
  ClassCounts counts(sums.size() / 3);
  auto from = sums.begin();
  for (auto* row : {&counts.both, &counts.predicted, &counts.wanted})
    for (double& count : *row) count = *from++;
  return counts;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Of the classes that occur, by their names or numbers.
void add_class_ious(const ClassCounts& counts, const Head& head, NamedValues& values) {
  const std::vector<double> ious = class_ious(counts);
  for (std::size_t k = 0; k < ious.size(); ++k) {
    if (std::isnan(ious[k])) continue;
    values.emplace_back(
        "iou/" + (k < head.class_names.size() ? head.class_names[k] : std::to_string(k)), ious[k]);
  }
}

// A record of a sample: its number of labels, their scores, their targets.
void add_record(std::span<const float> scores, std::span<const float> target, float head,
                std::vector<float>& records) {
  records.push_back(head);
  records.push_back(static_cast<float>(scores.size()));
  records.insert(records.end(), scores.begin(), scores.end());
  records.insert(records.end(), target.begin(), target.end());
}

double mean_auroc(std::span<const float> records, float head) {
  std::vector<std::vector<float>> scores;
  std::vector<std::vector<float>> targets;
  for (std::size_t at = 0; at < records.size();) {
    const auto width = static_cast<std::size_t>(records[at + 1]);
    if (records[at] == head) {
      scores.resize(std::max(scores.size(), width));
      targets.resize(scores.size());
      for (std::size_t k = 0; k < width; ++k) {
        if (std::isnan(records[at + 2 + width + k])) continue;
        scores[k].push_back(records[at + 2 + k]);
        targets[k].push_back(records[at + 2 + width + k]);
      }
    }
    at += 2 + 2 * width;
  }
  double sum = 0.0;
  double labels = 0.0;
  for (std::size_t k = 0; k < scores.size(); ++k) {
    const double area = auroc(scores[k], targets[k]);
    if (std::isnan(area)) continue;
    sum += area;
    labels += 1.0;
  }
  return labels > 0.0 ? sum / labels : std::nan("");
}

}  // namespace

std::vector<std::string> target_fields(const Head& head, bool training) {
  if (!head.mixes || !training) return {head.target};
  return {head.target, pipeline::other_label_field(head.target),
          pipeline::label_share_field(head.target)};
}

std::vector<std::string> Objective::fields() const {
  std::vector<std::string> names = inputs();
  for (const Head& head : heads())
    for (const std::string& field : target_fields(head, true))
      if (std::ranges::find(names, field) == names.end()) names.push_back(field);
  return names;
}

void Objective::score_nothing(Collectives& /*group*/) const {}
void Objective::check_targets(const pipeline::Batch& /*batch*/,
                              std::span<const nn::Shape> /*outputs*/) const {}
void Objective::add_records(const pipeline::Batch& /*batch*/,
                            std::span<const nn::OutputView> /*outputs*/,
                            std::vector<float>& /*records*/) const {}

NamedValues Objective::finish(const Tally& tally) const {
  NamedValues values;
  for (std::size_t i = 0; i < measures().size(); ++i) {
    values.emplace_back(measures()[i],
                        tally.samples > 0.0 ? tally.sums[i] / tally.samples : std::nan(""));
  }
  return values;
}

void LossObjective::add_part(Part part) {
  part.first = num_sums_;
  num_sums_ += part.kind == Part::Kind::kMean ? 1 : sums_of(part.metric, options_.heads[part.head]);
  measures_.push_back(part.name);
  parts_.push_back(std::move(part));
}

LossObjective::LossObjective(LossObjectiveOptions options) : options_(std::move(options)) {
  const std::vector<Head>& heads = options_.heads;
  require(!heads.empty(), "an objective needs at least one loss");
  require(!options_.inputs.empty(), "an objective needs at least one input");
  for (const Head& head : heads)
    require(std::isfinite(head.weight) && head.weight >= 0,
            "the weight of a loss must not be negative");
  add_part({.name = "loss"});
  add_part({.name = "top1"});
  add_part({.name = "top5"});
  for (const Head& head : heads) {
    losses_.push_back(head.loss.make());
    require(losses_.back() != nullptr, "make() of a loss gives nothing");
    require(!head.mixes || losses_.back()->takes_mixtures(),
            "MixUp and CutMix are for losses that take a label for each sample");
  }
  if (std::ranges::none_of(losses_, [](const auto& loss) {
        return loss->target() == TargetKind::kClass || loss->target() == TargetKind::kSamples;
      })) {
    // The two sums keep their places, and no measure uses them.
    measures_.resize(1);
    parts_.resize(1);
  }
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const std::string suffix = "." + (heads[i].name.empty() ? std::to_string(i) : heads[i].name);
    if (heads.size() > 1) add_part({.name = "loss" + suffix, .head = i});
    for (const Metric metric : heads[i].metrics) {
      add_part({.name = name_of(metric) + (heads_with(metric, heads) > 1 ? suffix : ""),
                .kind = Part::Kind::kMetric,
                .metric = metric,
                .head = i});
    }
  }
}

LossObjective::~LossObjective() = default;

void LossObjective::score(const ScoreRequest& request, std::span<double> sums) const {
  for (std::size_t i = 0; i < losses_.size(); ++i) score_head(request, i, sums);
  if (request.records == nullptr) return;
  std::vector<nn::OutputView> outputs;
  for (std::size_t i = 0; i < request.plan.num_outputs(); ++i)
    outputs.push_back(request.plan.output(i));
  add_records(request.batch, outputs, *request.records);
}

bool LossObjective::is_collective() const {
  return std::ranges::any_of(losses_, &Loss::is_collective);
}

// In the order in which score() calls them.
void LossObjective::score_nothing(Collectives& group) const {
  LossInput nothing;
  nothing.group = &group;
  for (const auto& loss : losses_)
    if (loss->is_collective()) loss->evaluate(nothing);
}

void LossObjective::check_targets(const pipeline::Batch& batch,
                                  std::span<const nn::Shape> outputs) const {
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    const Head& head = options_.heads[i];
    check_target(batch, target_of(batch, head.target), *losses_[i], head,
                 outputs[head.output].front());
  }
}

void LossObjective::add_records(const pipeline::Batch& batch,
                                std::span<const nn::OutputView> outputs,
                                std::vector<float>& records) const {
  for (const Part& part : parts_) {
    if (part.kind != Part::Kind::kMetric || part.metric != Metric::kAuroc) continue;
    const Head& head = options_.heads[part.head];
    for_each_sample(batch, outputs[head.output], target_of(batch, head.target).values,
                    [&](auto values, auto wanted) {
                      add_record(values, wanted, static_cast<float>(part.head), records);
                    });
  }
}

bool LossObjective::reads_again(std::size_t index) const {
  const auto end = options_.heads.begin() + static_cast<std::ptrdiff_t>(index);
  return std::any_of(options_.heads.begin(), end,
                     [&](const Head& head) { return head.output == options_.heads[index].output; });
}

void LossObjective::score_head(const ScoreRequest& request, std::size_t index,
                               std::span<double> sums) const {
  const Head& head = options_.heads[index];
  const nn::OutputView output = request.plan.output(head.output);
  Target target = target_of(request.batch, head.target);
  if (head.mixes && request.gradients) add_mixture(request.batch, head.target, target);
  const Loss& loss = *losses_[index];
  const bool has_mask_of_classes = loss.target() == TargetKind::kPixelClasses;
  check_target(request.batch, target, loss, head, output.shape.at(1));
  const std::span<float> gradient =
      request.gradients ? request.plan.output_gradient(head.output).data : std::span<float>();
  // A loss writes its gradient; that of a head before, of the same output, is added to it.
  const std::vector<float> other = reads_again(index)
                                       ? std::vector<float>(gradient.begin(), gradient.end())
                                       : std::vector<float>();
  // The divisor includes the head's weight, so that the gradient does.
  const LossSums result = loss.evaluate({.prediction = output,
                                         .target = target,
                                         .valid = request.batch.valid,
                                         .divisor = request.divisor / head.weight,
                                         .gradient = gradient,
                                         .group = request.gradients ? request.group : nullptr});
  for (std::size_t i = 0; i < other.size(); ++i) gradient[i] += other[i];
  sums[0] += head.weight * result.loss;
  sums[1] += static_cast<double>(result.top1);
  sums[2] += static_cast<double>(result.top5);
  if (has_mask_of_classes) {
    score_classes(count_classes(request.batch, output, target.labels, ignored_by(loss)), index,
                  sums);
  }
  for (const Part& part : parts_) {
    if (part.head != index || part.first < 3) continue;
    if (part.kind == Part::Kind::kMean) {
      sums[part.first] += result.loss;
      continue;
    }
    if (has_mask_of_classes) continue;
    if (target.values.size() != output.data.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  part.name + " needs float32 targets of the output's shape");
    }
    const std::span<double> own = sums.subspan(part.first, sums_of(part.metric, head));
    for_each_sample(request.batch, output, target.values, [&](auto values, auto wanted) {
      const Counted counted(values, wanted);
      if (part.metric == Metric::kIou) add_mask(counted.values(), counted.targets(), own);
      if (part.metric == Metric::kRmse) {
        own[0] += squared_error(counted.values(), counted.targets());
        own[1] += static_cast<double>(counted.values().size());
      }
    });
  }
}

void LossObjective::score_classes(const ClassCounts& counts, std::size_t index,
                                  std::span<double> sums) const {
  const Head& head = options_.heads[index];
  if (static_cast<std::int64_t>(counts.both.size()) != head.classes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the model has {} classes, the objective {}", counts.both.size(),
                            head.classes));
  }
  for (const Part& part : parts_) {
    if (part.head != index || part.kind == Part::Kind::kMean) continue;
    const std::span<double> own = sums.subspan(part.first, sums_of(part.metric, head));
    if (part.metric == Metric::kMiou) add_class_counts(counts, own);
    if (part.metric == Metric::kPixelAccuracy) {
      own[0] += sum_of(counts.both);
      own[1] += sum_of(counts.wanted);
    }
  }
}

NamedValues LossObjective::finish(const Tally& tally) const {
  NamedValues values;
  NamedValues by_class;  // after the others
  const double count = tally.samples > 0.0 ? tally.samples : std::nan("");
  for (const Part& part : parts_) {
    const double* sums = tally.sums.data() + part.first;
    if (part.kind == Part::Kind::kMean) {
      values.emplace_back(part.name, sums[0] / count);
    } else if (part.metric == Metric::kIou) {
      values.emplace_back(part.name, mean_iou({sums[0], sums[1], sums[2], sums[3]}));
    } else if (part.metric == Metric::kRmse) {
      values.emplace_back(part.name, std::sqrt(sums[0] / sums[1]));
    } else if (part.metric == Metric::kPixelAccuracy) {
      values.emplace_back(part.name, sums[0] / sums[1]);
    } else if (part.metric == Metric::kMiou) {
      const Head& head = options_.heads[part.head];
      ClassCounts counts = class_counts_of({sums, sums_of(part.metric, head)});
      // An ignored class cannot be predicted right: its predictions do not count.
      const auto ignored = static_cast<std::uint64_t>(ignored_by(*losses_[part.head]));
      if (ignored < counts.predicted.size()) counts.predicted[ignored] = 0.0;
      values.emplace_back(part.name, mean_iou(counts));
      add_class_ious(counts, head, by_class);
    } else if (!tally.records.empty()) {
      values.emplace_back(part.name, mean_auroc(tally.records, static_cast<float>(part.head)));
    }
  }
  values.insert(values.end(), by_class.begin(), by_class.end());
  return values;
}

}  // namespace millrace::trainer
