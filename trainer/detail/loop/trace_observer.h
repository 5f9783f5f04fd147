// TraceObserver: a run's epochs, evaluations and checkpoints as spans of a trace, each kind on a
// track of its own, because one may begin on another thread than the one that ends it.
//
// Threads: as Observer.
#pragma once

#include <chrono>
#include <string>

#include "io/base/trace.h"
#include "trainer/observer.h"

namespace millrace::trainer::detail {

class TraceObserver final : public Observer {
 public:
  /// `trace` is borrowed.
  explicit TraceObserver(Tracer& trace) : trace_(trace) {}

  void on_epoch_start(std::int64_t /*epoch*/) override { epoch_.begin = now(); }
  void on_epoch_end(const EpochEvent& event) override {
    epoch_.args.front() = {"epoch", event.epoch};
    end(epoch_);
  }
  void on_evaluation_start(std::int64_t /*epoch*/) override { evaluation_.begin = now(); }
  void on_evaluation_end(const EpochEvent& event) override {
    evaluation_.args.front() = {"samples", event.val_samples};
    end(evaluation_);
  }
  void on_checkpoint_start(const std::string& path) override {
    checkpoint_.begin = now();
    checkpoint_.args.front() = {"path", trace_.keep(path)};
  }
  void on_checkpoint(const std::string& /*path*/) override { end(checkpoint_); }

 private:
  /// Beyond the numbers that a system gives its threads.
  static constexpr std::int64_t kFirstTrack = 10'000'000;

  static TraceEvent::Time now() { return std::chrono::steady_clock::now(); }
  void end(TraceEvent& event) {
    event.end = now();
    trace_.span(event.name, event);
  }

  Tracer& trace_;
  TraceEvent epoch_{.name = "epoch", .thread = kFirstTrack};
  TraceEvent evaluation_{.name = "evaluation", .thread = kFirstTrack + 1};
  TraceEvent checkpoint_{.name = "checkpoint", .thread = kFirstTrack + 2};
};

}  // namespace millrace::trainer::detail
