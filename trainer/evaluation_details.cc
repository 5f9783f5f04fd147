#include "trainer/evaluation_details.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <tuple>

#include "trainer/collectives.h"
#include "trainer/hlo/score_program.h"
#include "trainer/loss/loss.h"

namespace millrace::trainer {
namespace {

using Json = nlohmann::json;

constexpr double kProbabilityUnit = 4294967296.0;

bool is_worse(const ScoredSample& a, const ScoredSample& b) {
  return std::tie(b.loss, a.key, a.place) < std::tie(a.loss, b.key, b.place);
}
bool is_surer(const ScoredSample& a, const ScoredSample& b) {
  return std::tie(b.probability, a.key, a.place) < std::tie(a.probability, b.key, b.place);
}

using Before = bool (*)(const ScoredSample&, const ScoredSample&);

void keep(ScoredSample sample, std::vector<ScoredSample>& of, Before before, std::size_t most) {
  if (of.size() == most && !before(sample, of.back())) return;
  of.insert(std::ranges::upper_bound(of, sample, before), std::move(sample));
  if (of.size() > most) of.pop_back();
}

std::size_t most_of(DetailKind kind) {
  return kind == DetailKind::kMasks ? EvaluationDetails::kMostMasks
                                    : EvaluationDetails::kMostSamples;
}

void count_probability(double probability, bool is_right, EvaluationDetails& details) {
  constexpr auto kBins = static_cast<double>(EvaluationDetails::kBins);
  const double bin = std::clamp(std::ceil(probability * kBins) - 1, 0.0, kBins - 1);
  CalibrationBin& of = details.bins.at(static_cast<std::size_t>(bin));
  ++of.count;
  of.right += is_right ? 1 : 0;
  of.probability += static_cast<std::uint64_t>(std::llround(probability * kProbabilityUnit));
}

bool has_finite_outputs(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

/// Places of a batch's samples, if it has them.
SamplePlace place_of(const pipeline::Batch& batch, std::size_t slot) {
  SamplePlace place = {-1, -1, -1};
  const auto field = std::ranges::find(batch.fields, kPlaceField, &pipeline::BatchField::name);
  if (field == batch.fields.end()) return place;
  std::ranges::copy(field->as<std::int64_t>().subspan(3 * slot, 3), place.begin());
  return place;
}

// ---- a class for each sample

/// Of equals the label, as top1 has it, or the first.
std::size_t predicted_class(std::span<const float> logits, std::size_t label) {
  const auto highest = std::ranges::max_element(logits);
  return logits[label] == *highest ? label : static_cast<std::size_t>(highest - logits.begin());
}

void add_class(std::span<const float> logits, std::size_t label, ScoredSample sample,
               EvaluationDetails& details) {
  const std::size_t predicted = predicted_class(logits, label);
  const double highest = logits[predicted];
  const double sum = std::accumulate(
      logits.begin(), logits.end(), 0.0,
      [&](double so_far, float logit) { return so_far + std::exp(double{logit} - highest); });
  sample.label = static_cast<std::int64_t>(label);
  sample.predicted = static_cast<std::int64_t>(predicted);
  sample.probability = 1.0 / sum;
  sample.loss = std::log(sum) + highest - double{logits[label]};
  ++details.counts[{sample.label, sample.predicted}];
  count_probability(sample.probability, predicted == label, details);
  if (predicted != label) keep(sample, details.mistakes, is_surer, EvaluationDetails::kMostSamples);
  keep(std::move(sample), details.worst, is_worse, EvaluationDetails::kMostSamples);
}

// ---- labels that hold or do not

/// ln(1 + e^-|x|) and the rest of binary cross-entropy, without overflow.
double binary_loss(double logit, double target) {
  return std::max(logit, 0.0) - logit * target + std::log1p(std::exp(-std::abs(logit)));
}

void add_labels(std::span<const float> logits, std::span<const float> targets, ScoredSample sample,
                EvaluationDetails& details) {
  double counted = 0;
  for (std::size_t k = 0; k < logits.size(); ++k) {
    if (std::isnan(targets[k])) continue;
    const double logit = logits[k];
    const bool holds = targets[k] > 0.5F;
    const bool predicted = logit > 0;
    const double probability = 1.0 / (1.0 + std::exp(-logit));
    sample.loss += binary_loss(logit, targets[k]);
    ++counted;
    ++details.counts[{static_cast<std::int64_t>(k), 2 * (holds ? 1 : 0) + (predicted ? 1 : 0)}];
    count_probability(probability, holds, details);
    const double sure = predicted ? probability : 1 - probability;
    if (holds == predicted || sure <= sample.probability) continue;
    sample.label = static_cast<std::int64_t>(k);
    sample.predicted = predicted ? 1 : 0;
    sample.probability = sure;
  }
  if (counted == 0) return;
  sample.loss /= counted;
  if (sample.label >= 0) keep(sample, details.mistakes, is_surer, EvaluationDetails::kMostSamples);
  keep(std::move(sample), details.worst, is_worse, EvaluationDetails::kMostSamples);
}

// ---- masks

/// One sample's classes, of each pixel; below 0: it does not count.
struct Classes {
  std::vector<std::int64_t> wanted;
  std::vector<std::int64_t> found;
};

std::vector<std::int64_t> found_classes(std::span<const float> logits, std::size_t pixels) {
  std::vector<std::int64_t> found(pixels);
  if (logits.size() == pixels) {
    std::ranges::transform(logits, found.begin(), [](float logit) { return logit > 0 ? 1 : 0; });
    return found;
  }
  std::vector<float> best(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(pixels));
  for (std::size_t k = 1; k * pixels < logits.size(); ++k)
    for (std::size_t i = 0; i < pixels; ++i) {
      const bool is_more = logits[k * pixels + i] > best[i];
      best[i] = is_more ? logits[k * pixels + i] : best[i];
      found[i] = is_more ? static_cast<std::int64_t>(k) : found[i];
    }
  return found;
}

SmallMask small_mask(std::span<const std::int64_t> classes, std::int64_t height,
                     std::int64_t width) {
  const std::int64_t longest = std::max({height, width, SmallMask::kSide});
  SmallMask mask{.height = std::max(height * SmallMask::kSide / longest, std::int64_t{1}),
                 .width = std::max(width * SmallMask::kSide / longest, std::int64_t{1})};
  for (std::int64_t y = 0; y < mask.height; ++y)
    for (std::int64_t x = 0; x < mask.width; ++x) {
      const std::int64_t from = y * height / mask.height * width + x * width / mask.width;
      const std::int64_t one = classes[static_cast<std::size_t>(from)];
      mask.classes.push_back(one < 0 || one >= SmallMask::kIgnored
                                 ? SmallMask::kIgnored
                                 : static_cast<std::uint8_t>(one));
    }
  return mask;
}

/// Pixels of a batch by (class, predicted class), until they are put where there is no limit.
class PixelCounts {
 public:
  explicit PixelCounts(std::int64_t classes)
      : classes_(classes), counts_(static_cast<std::size_t>(classes * classes)) {}

  /// The share that is wrong, of those that count; NaN: none does.
  double add(const Classes& of) {
    std::int64_t wrong = 0;
    std::int64_t counted = 0;
    for (std::size_t i = 0; i < of.wanted.size(); ++i) {
      if (of.wanted[i] < 0) continue;
      ++counted;
      wrong += of.wanted[i] != of.found[i] ? 1 : 0;
      ++counts_[static_cast<std::size_t>(of.wanted[i] * classes_ + of.found[i])];
    }
    return static_cast<double>(wrong) / static_cast<double>(counted);
  }
  void put(EvaluationDetails& details) const {
    for (std::int64_t i = 0; i < classes_ * classes_; ++i)
      if (const std::int64_t count = counts_[static_cast<std::size_t>(i)]; count > 0)
        details.counts[{i / classes_, i % classes_}] += count;
  }

 private:
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

// ---- from one process to another

Json mask_json(const SmallMask& mask) {
  return {mask.height, mask.width, Json::binary(mask.classes)};
}
SmallMask mask_of(const Json& json) {
  return {.height = json.at(0), .width = json.at(1), .classes = json.at(2).get_binary()};
}

Json samples_json(const std::vector<ScoredSample>& samples) {
  auto all = Json::array();
  for (const ScoredSample& one : samples)
    all.push_back({Json::binary({one.key.begin(), one.key.end()}), one.place, one.label,
                   one.predicted, one.probability, one.loss, mask_json(one.wanted),
                   mask_json(one.found)});
  return all;
}
std::vector<ScoredSample> samples_of(const Json& json) {
  std::vector<ScoredSample> all;
  for (const Json& one : json) {
    const auto& key = one.at(0).get_binary();
    all.push_back({.key = {key.begin(), key.end()},
                   .place = one.at(1),
                   .label = one.at(2),
                   .predicted = one.at(3),
                   .probability = one.at(4),
                   .loss = one.at(5),
                   .wanted = mask_of(one.at(6)),
                   .found = mask_of(one.at(7))});
  }
  return all;
}

std::vector<std::uint8_t> packed(const EvaluationDetails& details) {
  auto counts = Json::array();
  for (const auto& [pair, count] : details.counts)
    counts.push_back({pair.first, pair.second, count});
  auto bins = Json::array();
  for (const CalibrationBin& bin : details.bins)
    bins.push_back({bin.count, bin.right, bin.probability});
  return Json::to_cbor({static_cast<int>(details.kind), details.classes, details.samples,
                        std::move(counts), std::move(bins), samples_json(details.worst),
                        samples_json(details.mistakes)});
}

EvaluationDetails unpacked(std::span<const std::byte> bytes) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const Json json = Json::from_cbor(from, from + bytes.size());
  EvaluationDetails details{.kind = static_cast<DetailKind>(json.at(0).get<int>()),
                            .classes = json.at(1),
                            .samples = json.at(2)};
  for (const Json& one : json.at(3)) details.counts[{one.at(0), one.at(1)}] = one.at(2);
  for (std::size_t i = 0; i < details.bins.size(); ++i) {
    const Json& bin = json.at(4).at(i);
    details.bins[i] = {.count = bin.at(0), .right = bin.at(1), .probability = bin.at(2)};
  }
  details.worst = samples_of(json.at(5));
  details.mistakes = samples_of(json.at(6));
  return details;
}

}  // namespace

void EvaluationDetails::add(EvaluationDetails other) {
  if (other.kind == DetailKind::kNone) return;
  kind = other.kind;
  classes = other.classes;
  samples += other.samples;
  for (const auto& [pair, count] : other.counts) counts[pair] += count;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    bins[i].count += other.bins[i].count;
    bins[i].right += other.bins[i].right;
    bins[i].probability += other.bins[i].probability;
  }
  for (ScoredSample& one : other.worst) keep(std::move(one), worst, is_worse, most_of(kind));
  for (ScoredSample& one : other.mistakes) keep(std::move(one), mistakes, is_surer, most_of(kind));
}

std::int64_t EvaluationDetails::right() const {
  std::int64_t sum = 0;
  for (const auto& [pair, count] : counts) {
    const bool is_right = kind == DetailKind::kLabels ? pair.second == 0 || pair.second == 3
                                                      : pair.first == pair.second;
    sum += is_right ? count : 0;
  }
  return sum;
}

std::int64_t EvaluationDetails::counted() const {
  std::int64_t sum = 0;
  for (const auto& [pair, count] : counts) sum += count;
  return sum;
}

double EvaluationDetails::calibration_error() const {
  double sum = 0;
  std::int64_t all = 0;
  for (const CalibrationBin& bin : bins) {
    sum += std::abs(static_cast<double>(bin.right) -
                    static_cast<double>(bin.probability) / kProbabilityUnit);
    all += bin.count;
  }
  return sum / static_cast<double>(all);
}

/// What is collected of the head's outputs.
struct DetailedObjective::Target {
  Head head;
  TargetKind kind = TargetKind::kClass;
  std::int64_t ignored = -1;

  static std::unique_ptr<const Target> of(std::span<const Head> heads) {
    for (const Head& head : heads) {
      const auto loss = head.loss.make();
      if (loss->target() == TargetKind::kValues || loss->target() == TargetKind::kSamples) continue;
      return std::make_unique<const Target>(Target{
          .head = head, .kind = loss->target(), .ignored = loss->ignored_label().value_or(-1)});
    }
    return nullptr;
  }

  DetailKind kind_of(const nn::OutputView& output) const {
    if (kind == TargetKind::kClass) return DetailKind::kClasses;
    const bool is_mask = kind == TargetKind::kPixelClasses || output.shape.size() == 4;
    return is_mask ? DetailKind::kMasks : DetailKind::kLabels;
  }

  EvaluationDetails details(const pipeline::Batch& batch, const nn::OutputView& output) const {
    EvaluationDetails details{.kind = kind_of(output),
                              .classes = std::max<std::int64_t>(output.shape.at(1), 1)};
    if (details.kind == DetailKind::kMasks) {
      add_masks(batch, output, details);
      return details;
    }
    for_each_slot(batch, output, [&](std::size_t slot, std::span<const float> logits) {
      ScoredSample sample{.key = batch.keys[slot], .place = place_of(batch, slot)};
      ++details.samples;
      if (details.kind == DetailKind::kClasses) {
        const auto label = batch.field(head.target).as<std::int64_t>()[slot];
        add_class(logits, static_cast<std::size_t>(label), std::move(sample), details);
      } else {
        const auto targets = batch.field(head.target).as<float>();
        add_labels(logits, targets.subspan(slot * logits.size(), logits.size()), std::move(sample),
                   details);
      }
    });
    return details;
  }

 private:
  /// Of valid slots whose outputs are finite.
  template <typename Visit>
  static void for_each_slot(const pipeline::Batch& batch, const nn::OutputView& output,
                            const Visit& visit) {
    const auto size = static_cast<std::size_t>(batch.size);
    const std::size_t width = output.data.size() / size;
    for (std::size_t slot = 0; slot < size; ++slot) {
      const std::span<const float> own = output.data.subspan(slot * width, width);
      if (batch.valid[slot] != 0 && has_finite_outputs(own)) visit(slot, own);
    }
  }

  std::vector<std::int64_t> wanted_classes(const pipeline::Batch& batch, std::size_t slot,
                                           std::size_t pixels) const {
    std::vector<std::int64_t> wanted(pixels);
    const pipeline::BatchField& field = batch.field(head.target);
    if (kind == TargetKind::kPixelClasses)
      std::ranges::transform(field.as<std::int64_t>().subspan(slot * pixels, pixels),
                             wanted.begin(),
                             [this](std::int64_t one) { return one == ignored ? -1 : one; });
    else
      std::ranges::transform(field.as<float>().subspan(slot * pixels, pixels), wanted.begin(),
                             [](float one) { return std::isnan(one) ? -1
                                                    : one > 0.5F    ? 1
                                                                    : 0; });
    return wanted;
  }

  // The small masks are made of those alone that may be kept.
  void add_masks(const pipeline::Batch& batch, const nn::OutputView& output,
                 EvaluationDetails& details) const {
    const std::int64_t height = output.shape.at(2);
    const std::int64_t width = output.shape.at(3);
    const auto pixels = static_cast<std::size_t>(height * width);
    details.classes = std::max<std::int64_t>(details.classes, 2);
    PixelCounts counts(details.classes);
    for_each_slot(batch, output, [&](std::size_t slot, std::span<const float> logits) {
      const Classes of{.wanted = wanted_classes(batch, slot, pixels),
                       .found = found_classes(logits, pixels)};
      ++details.samples;
      ScoredSample sample{.key = batch.keys[slot], .place = place_of(batch, slot)};
      sample.loss = counts.add(of);
      sample.probability = 1 - sample.loss;
      const bool is_full = details.worst.size() == EvaluationDetails::kMostMasks;
      if (std::isnan(sample.loss) || (is_full && !is_worse(sample, details.worst.back()))) return;
      sample.wanted = small_mask(of.wanted, height, width);
      sample.found = small_mask(of.found, height, width);
      keep(std::move(sample), details.worst, is_worse, EvaluationDetails::kMostMasks);
    });
    counts.put(details);
  }
};

DetailedObjective::DetailedObjective(const Objective& objective, DetailOptions options)
    : objective_(objective), options_(std::move(options)), target_(Target::of(objective.heads())) {}

DetailedObjective::~DetailedObjective() = default;

EvaluationDetails DetailedObjective::details() const {
  const MutexLock lock(mutex_);
  return last_;
}

void DetailedObjective::see(const pipeline::Batch& batch) const {
  if (!options_.on_first_batch) return;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(has_seen_, true)) return;
  }
  options_.on_first_batch(batch);
}

void DetailedObjective::collect(const pipeline::Batch& batch, const nn::OutputView& output) const {
  EvaluationDetails own = target_->details(batch, output);
  const MutexLock lock(mutex_);
  collected_.add(std::move(own));
}

void DetailedObjective::score(const ScoreRequest& request, std::span<double> sums) const {
  if (request.gradients) see(request.batch);
  objective_.score(request, sums);
  if (request.records == nullptr || target_ == nullptr) return;
  collect(request.batch, request.plan.output(target_->head.output));
}

void DetailedObjective::check_targets(const pipeline::Batch& batch,
                                      std::span<const nn::Shape> outputs) const {
  objective_.check_targets(batch, outputs);
}

void DetailedObjective::add_records(const pipeline::Batch& batch,
                                    std::span<const nn::OutputView> outputs,
                                    std::vector<float>& records) const {
  objective_.add_records(batch, outputs, records);
  if (target_ == nullptr || outputs[target_->head.output].data.empty()) return;
  collect(batch, outputs[target_->head.output]);
}

// The first replica of a process brings what all of its replicas have collected.
void DetailedObjective::end_evaluation(Collectives& group) const {
  std::vector<std::uint8_t> own;
  {
    const MutexLock lock(mutex_);
    if (collected_.kind != DetailKind::kNone) own = packed(std::exchange(collected_, {}));
  }
  const auto all = group.all_gather_bytes(std::as_bytes(std::span(own)));
  if (group.rank() != 0) return;
  EvaluationDetails whole;
  for (const auto& bytes : all)
    if (!bytes.empty()) whole.add(unpacked(bytes));
  const MutexLock lock(mutex_);
  last_ = std::move(whole);
}

std::optional<hlo::ScoreResults> DetailedObjective::stablehlo(const hlo::ScoreArguments& of) const {
  return objective_.stablehlo(of);
}

}  // namespace millrace::trainer
