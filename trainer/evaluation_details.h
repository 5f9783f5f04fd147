// EvaluationDetails: what an evaluation found beside its measures: which classes are taken for
// which, how far a probability can be relied on, and which samples are furthest from what they
// should be. Bounded, whatever the set: numbers of classes, and a few samples by name.
//
//   const DetailedObjective detailed(objective);
//   trainer::evaluate({.model = model, .objective = detailed, ...}, options);
//   const EvaluationDetails details = detailed.details();   // in process 0
//
// All is counted in whole numbers, each valid sample once, and samples that are alike are told
// apart by their keys: of the same outputs the same on any number of devices and processes. A
// backend that brings no outputs to the host (trainer/pjrt) has none for classes and masks.
//
// Threads: as values, and as Objective.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/base/thread_annotations.h"
#include "trainer/objective.h"

namespace millrace::trainer {

/// The batch field that says where a sample is: int64 (N, 3), its shard's number, its offset there,
/// and the number of its picture's suffix, each -1 where it is not known. A batch may lack it.
inline constexpr const char* kPlaceField = "place";
using SamplePlace = std::array<std::int64_t, 3>;

/// What the samples' targets are: a class, several labels that hold or do not, a class for each
/// pixel. A mask of one channel has the classes 0 and 1.
enum class DetailKind { kNone, kClasses, kLabels, kMasks };

/// A mask's classes, of every so manieth pixel: (height, width), row by row.
struct SmallMask {
  static constexpr std::int64_t kSide = 96;
  static constexpr std::uint8_t kIgnored = 255;  ///< does not count, or has a number beyond 254

  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> classes = {};
};

struct ScoredSample {
  std::string key = {};
  SamplePlace place = {-1, -1, -1};
  std::int64_t label = -1;      ///< its class; kLabels: the label that is most surely wrong, or -1
  std::int64_t predicted = -1;  ///< the class; kLabels: 1 where the label is said to hold
  double probability = 0;       ///< of what is predicted; of masks the share of right pixels
  /// Cross-entropy in nats; of labels its mean over them, of masks the share of wrong pixels.
  double loss = 0;
  SmallMask wanted = {};  ///< of masks
  SmallMask found = {};
};

/// Predictions with a probability in (i / 15, (i + 1) / 15].
struct CalibrationBin {
  std::int64_t count = 0;
  std::int64_t right = 0;         ///< kLabels: how many labels hold
  std::uint64_t probability = 0;  ///< the sum, in units of 2^-32
};

struct EvaluationDetails {
  static constexpr std::size_t kBins = 15;
  static constexpr std::size_t kMostSamples = 24;
  static constexpr std::size_t kMostMasks = 12;

  DetailKind kind = DetailKind::kNone;
  std::int64_t classes = 0;  ///< or labels
  std::int64_t samples = 0;
  /// Samples, or pixels, by (class, predicted class). kLabels: samples by (label, 2 * whether it
  /// holds + whether it is predicted).
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts = {};
  std::array<CalibrationBin, kBins> bins = {};  ///< empty for masks
  std::vector<ScoredSample> worst = {};         ///< by loss, the largest first
  std::vector<ScoredSample> mistakes = {};      ///< wrong, the most probable first; not of masks

  void add(EvaluationDetails other);
  /// Samples, pixels, or labels of samples that are predicted right.
  std::int64_t right() const;
  std::int64_t counted() const;
  /// Expected calibration error: the mean over the predictions of |share that is right - mean
  /// probability| of their bin. NaN without predictions. Source: Guo et al., 2017.
  double calibration_error() const;
};

struct DetailOptions {
  /// Called once, with the first batch that this process trains on, before it is scored.
  std::function<void(const pipeline::Batch&)> on_first_batch = {};
};

/// Scores as the objective that it borrows, and keeps what evaluations find: of the first head that
/// has classes, labels or masks.
class DetailedObjective final : public Objective {
 public:
  explicit DetailedObjective(const Objective& objective, DetailOptions options = {});
  ~DetailedObjective() override;

  /// Of the last evaluation that has ended, of all processes; empty in other processes than 0.
  EvaluationDetails details() const;

  const std::vector<std::string>& measures() const override { return objective_.measures(); }
  const std::vector<std::string>& inputs() const override { return objective_.inputs(); }
  std::span<const Head> heads() const override { return objective_.heads(); }
  std::size_t num_sums() const override { return objective_.num_sums(); }
  void score(const ScoreRequest& request, std::span<double> sums) const override;
  bool is_collective() const override { return objective_.is_collective(); }
  void score_nothing(Collectives& group) const override { objective_.score_nothing(group); }
  void check_targets(const pipeline::Batch& batch,
                     std::span<const nn::Shape> outputs) const override;
  void add_records(const pipeline::Batch& batch, std::span<const nn::OutputView> outputs,
                   std::vector<float>& records) const override;
  std::optional<hlo::ScoreResults> stablehlo(const hlo::ScoreArguments& of) const override;
  NamedValues finish(const Tally& tally) const override { return objective_.finish(tally); }

  /// At the end of an evaluation, on every replica's thread once all of their batches are scored:
  /// brings what was collected to process 0. A collective of `group`. fit() and evaluate() call it
  /// where this is the objective that they are given.
  void end_evaluation(Collectives& group) const;

 private:
  struct Target;

  void see(const pipeline::Batch& batch) const;
  void collect(const pipeline::Batch& batch, const nn::OutputView& output) const;

  const Objective& objective_;
  const DetailOptions options_;
  std::unique_ptr<const Target> target_;  ///< null: there is nothing to collect
  mutable Mutex mutex_;
  mutable bool has_seen_ MILLRACE_GUARDED_BY(mutex_) = false;
  mutable EvaluationDetails collected_ MILLRACE_GUARDED_BY(mutex_);
  mutable EvaluationDetails last_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::trainer
