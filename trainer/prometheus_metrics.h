// PrometheusMetrics: a run's numbers as Prometheus reads them, and a line that says whether it goes
// on. Whoever asks gets what is so at that moment; nothing is kept over time.
//
//   PrometheusMetrics metrics;
//   {
//     const PrometheusMetrics::Watched watched(metrics, {.train = [&] { return state(); }});
//     fit(input, options, {&metrics});
//   }
//   serve("/metrics", [&] { return metrics.text(); });       // on another thread
//
// Source: Prometheus' text exposition format 0.0.4. Names have base units; what only rises ends in
// _total. Observers are called in process 0 alone: other processes have no steps, but an input.
//
// Threads: the hooks as Observer; the rest any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/clock.h"
#include "io/base/thread_annotations.h"
#include "io/base/topology.h"
#include "pipeline/statistics.h"
#include "trainer/observer.h"

namespace millrace::trainer {

/// What an input holds now, and has done since it was started.
struct InputState {
  pipeline::Statistics statistics = {};
  /// Samples of batches that wait for a device, or are on their way there; nullopt: unknown.
  std::optional<std::int64_t> landed_samples = {};
};

/// What the network's readers had to repeat.
struct NetworkState {
  std::uint64_t retries = 0;
  double waited = 0;  ///< seconds between tries, summed over the readers
};

/// What of a run is shown beside its events. The functions may be empty; they are called on the
/// thread that asks, and say nothing where they have nothing to tell.
struct WatchedRun {
  using Input = std::function<std::optional<InputState>()>;
  Input train = {};
  Input validation = {};
  std::function<NetworkState()> network = {};
  Topology topology = {};
  std::int64_t epochs = 0;  ///< that the run has
};

class PrometheusMetrics final : public Observer {
 public:
  /// `version`: the program's. `clock` is borrowed.
  explicit PrometheusMetrics(std::string version = {}, const Clock& clock = Clock::system());

  /// Shows `run` as long as it exists. One at a time.
  class Watched {
   public:
    Watched(PrometheusMetrics& metrics, const WatchedRun& run);
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    PrometheusMetrics& metrics_;
  };
  /// The page: "# HELP ...", "# TYPE ...", and a line for each value.
  std::string text() const;
  /// One JSON object: "phase", "epoch", "step", "seconds_since_progress". Progress is a step, a
  /// batch that is evaluated, a checkpoint, or a sample that the input has handed out.
  std::string health() const;
  double seconds_since_progress() const;

  void on_fit_start() override;
  void on_epoch_start(std::int64_t epoch) override;
  void on_step(const StepEvent& event) override;
  void on_train_end(const EpochEvent& event) override;
  void on_evaluation_start(std::int64_t epoch) override;
  void on_evaluation_step(std::int64_t batches) override;
  void on_evaluation_end(const EpochEvent& event) override;
  void on_epoch_end(const EpochEvent& event) override;
  void on_checkpoint_start(const std::string& path) override;
  void on_checkpoint(const std::string& path) override;
  void on_fit_end(const EndEvent& event) override;

 private:
  /// What the hooks have told.
  struct Told {
    StepEvent step = {};  ///< the last one
    std::int64_t epoch = 0;
    std::int64_t steps = 0;
    std::int64_t samples = 0;
    std::int64_t evaluated_batches = 0;
    std::int64_t checkpoints = 0;
    Clock::TimePoint checkpoint = {};  ///< when the last one was complete
    StepTimes times = {};
    /// By set and measure, of the last epoch that has them.
    std::map<std::string, NamedValues> measures = {};
    std::map<std::string, std::int64_t> faults = {};
    std::int64_t best_epoch = 0;
  };

  void progressed(std::string_view phase) MILLRACE_REQUIRES(mutex_);
  double seconds_since(Clock::TimePoint then) const;
  double idle_seconds(std::uint64_t samples) const MILLRACE_REQUIRES(mutex_);
  std::string told_text() const MILLRACE_REQUIRES(mutex_);

  const std::string version_;
  const Clock& clock_;
  const double wall_start_;
  /// Held while an input is asked; taken before the other one, for which no step waits long.
  mutable Mutex run_mutex_;
  WatchedRun run_ MILLRACE_GUARDED_BY(run_mutex_);
  mutable Mutex mutex_;
  Told told_ MILLRACE_GUARDED_BY(mutex_);
  std::string_view phase_ MILLRACE_GUARDED_BY(mutex_) = "starting";
  mutable Clock::TimePoint progress_ MILLRACE_GUARDED_BY(mutex_);
  mutable std::uint64_t seen_samples_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::trainer
