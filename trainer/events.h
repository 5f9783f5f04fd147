// Events: what a run reports, as plain structs; log lines, metrics.jsonl, `--json` lines and the
// progress bar are all made from these. Epochs and steps count from 1.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::trainer {

/// Named values in the objective's order: {"loss", 0.31}, {"top1", 0.892}.
using NamedValues = std::vector<std::pair<std::string, double>>;

/// How a replica's thread spent its time, in seconds.
struct StepTimes {
  double wait = 0;     ///< for a batch
  double forward = 0;  ///< and the loss
  double backward = 0;
  double reduce = 0;     ///< in collectives, as far as backward does not hide them
  double peer_wait = 0;  ///< in collectives, waiting for slower replicas
  double update = 0;
  double land = 0;    ///< of a step that is one program: copying what its devices did not have
  double device = 0;  ///< likewise: giving it to the devices, and waiting for what came of it

  /// One of the times: its name in JSON, in the line for people, and in the metrics report.
  struct Part {
    double StepTimes::*value;
    std::string_view name, shown, metric;
  };
  /// All of them.
  static std::span<const Part> parts();
  /// Whether such a step has the part: one that is one program has other parts than one that is
  /// composed.
  bool has(const Part& part) const;

  double total() const;
  /// Adds `share` of `times`.
  void add(const StepTimes& times, double share = 1.0);
};

/// A step that begins.
struct StepStart {
  std::int64_t epoch = 1;
  std::int64_t step = 1;  ///< in the epoch
  std::int64_t global_step = 1;
  double lr = 0;
};

/// Of a checkpoint that is being saved. On a disk its bytes are written and read back, to a store
/// they are sent.
struct CheckpointStep {
  std::string path = {};
  double share = 0;         ///< of the work that is done, at most 1
  std::uint64_t bytes = 0;  ///< of its tensors
};

struct StepEvent {
  int rank = 0;
  int world = 1;
  std::string device = {};  ///< "cpu:0"
  std::int64_t epoch = 1;
  std::int64_t step = 1;  ///< in the epoch
  std::int64_t global_step = 1;
  std::int64_t steps_per_epoch = 0;  ///< 0: unknown
  double loss = 0;                   ///< this step's, mean over all replicas' valid samples
  double mean_loss = 0;              ///< the epoch's running mean
  double lr = 0;
  double rate = 0;                  ///< samples/s of this replica, exponential mean
  double global_rate = 0;           ///< samples/s of this replica since the epoch began
  double total_rate = 0;            ///< the same of all replicas
  double recent_rate = 0;           ///< of all replicas as `rate`, at a logged step
  StepTimes times = {};             ///< of this step
  std::int64_t samples = 0;         ///< of this replica, valid, in this step
  std::int64_t global_samples = 0;  ///< of all replicas, likewise
  std::int64_t bytes = 0;           ///< of the batches it took
};

/// One plan that was compiled.
struct CompileEvent {
  int rank = 0;
  std::string shape = {};
  double seconds = 0;
  std::size_t activation_bytes = 0;
};

/// What an epoch's steps spent their time on, and what limits them. The first step, which waits for
/// the input to start and compiles, is kept apart: without a second one there is no mean.
struct StallReport {
  StepTimes mean_step;         ///< mean over steps but the first, and over replicas
  StepTimes first_step;        ///< mean over replicas
  std::int64_t steps = 0;      ///< in mean_step
  double wait_share = 0;       ///< of the replicas' time
  double free_input_step = 0;  ///< seconds a step would take if it never waited for a batch
  std::string slowest_stage;
  std::string verdict;  ///< "input-bound by decode (waits 7.1 %)"
};

/// What one rank's share of an evaluation was.
struct RankEvaluation {
  std::int64_t samples = 0;
  NamedValues values = {};  ///< without those that need records
};

/// What a stage of the input did in an epoch.
struct InputStage {
  std::string name;  ///< "read", "merge", "decode", "deliver"
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  double busy = 0;     ///< seconds, summed over its threads
  double waiting = 0;  ///< likewise
  int threads = 1;     ///< at the end
};

/// A fault that the policy has skipped. Texts are empty, and the offset is unknown, where the fault
/// does not say.
struct SkippedSample {
  std::string shard = {};  ///< its url without secrets
  std::string key = {};
  std::string member = {};
  std::optional<std::int64_t> offset = {};  ///< in the shard
  std::string fault = {};                   ///< "Corrupt"
  std::string reason = {};
  std::int64_t samples = 1;  ///< that it cost, at least

  /// How many of an epoch are listed, and how long a text is, at most.
  static constexpr std::size_t kMost = 100;
  static constexpr std::size_t kMostText = 300;
};

/// What the input did up to an epoch's end, since the one before: stages and queue summed over the
/// processes, samples of the epoch and of all.
struct InputReport {
  std::vector<InputStage> stages = {};
  std::int64_t requests = 0;  ///< of a batch, by the devices
  std::int64_t ready = 0;     ///< of these, for a batch that was there already
  std::int64_t emitted = 0;   ///< samples given
  std::int64_t filtered = 0;  ///< samples that a filter left out
  /// Samples that faults have cost, by the fault's name: {"Corrupt", 3}.
  std::map<std::string, std::int64_t> faults = {};
  /// The first SkippedSample::kMost of them.
  std::vector<SkippedSample> skips = {};
};

struct EpochEvent {
  std::int64_t epoch = 1;
  std::int64_t global_step = 0;  ///< the epoch's last one
  /// The first one of this session, in the epoch; above 1 in an epoch that a resumed run continues,
  /// whose seconds, rate and input are those of the rest.
  std::int64_t from_step = 1;
  NamedValues train;
  std::int64_t train_samples = 0;  ///< of all replicas
  std::int64_t replica_train_samples = 0;
  /// Steps that changed nothing, as their loss or gradients were not finite (OnNonFinite::kSkip),
  /// since from_step; their samples are none of train_samples.
  std::int64_t skipped_steps = 0;
  std::int64_t skipped_step_samples = 0;
  std::int64_t skipped_samples = 0;  ///< of the training set, by the fault policy
  std::int64_t refetched = 0;        ///< damaged over the network and intact when fetched again
  NamedValues val;                   ///< empty without evaluation
  NamedValues replica_val;           ///< of rank 0's share of the samples
  std::vector<RankEvaluation> val_by_rank;
  std::int64_t val_samples = 0;
  /// Samples whose outputs were not finite: then all of `val` is NaN (OnNonFinite::kSkip).
  std::int64_t val_non_finite = 0;
  std::int64_t val_skipped_samples = 0;
  double val_seconds = 0;
  double train_seconds = 0;
  double seconds = 0;  ///< with evaluation, without the checkpoints at its end
  double rate = 0;     ///< samples/s of all replicas
  StallReport stall;
  /// StallReport::mean_step of each replica, by rank.
  std::vector<StepTimes> step_by_rank = {};
  InputReport input = {};
  bool is_best = false;
  std::vector<CompileEvent> compilations = {};  ///< in this epoch, on all replicas
};

/// An epoch's checkpoints are written: its row was told of before, so that a run that is killed
/// between the two has the row.
struct SavedEvent {
  std::int64_t epoch = 1;
  double seconds = 0;
};

/// The fault that ends a run.
struct FaultEvent {
  std::string fault = {};        ///< "NotFinite"; empty: none of millrace's
  std::string message = {};      ///< with its place
  std::int64_t epoch = 1;        ///< in which it happened
  std::int64_t global_step = 0;  ///< the last one that is known of
  double seconds = 0;            ///< since the session began
};

struct EndEvent {
  std::int64_t epochs = 0;
  std::string monitor;
  std::optional<double> best;
  std::int64_t best_epoch = 0;
  double seconds = 0;
  double mean_rate = 0;  ///< samples/s of all replicas over all training
  std::string verdict;
  bool interrupted = false;     ///< by the caller's stop
  std::string stopped_by = {};  ///< "signal", "max-time"; empty: all epochs are done
};

/// The value called `name`; nullopt if there is none.
std::optional<double> find_value(const NamedValues& values, const std::string& name);

/// One JSON object without a newline, with "event": "step", "epoch", "saved", "fault" or "end".
std::string to_json(const StepEvent& event);
std::string to_json(const EpochEvent& event);
std::string to_json(const SavedEvent& event);
std::string to_json(const FaultEvent& event);
std::string to_json(const EndEvent& event);

}  // namespace millrace::trainer
