// Tracer: what the threads of a program did and when, as spans on a track per thread, and how
// quantities went, as counters: for a file that trace viewers open (io/trace_file.h).
//
// A room takes a borrowed `Tracer*` among its options; null is off, and costs a comparison.
//
//   Tracer tracer({.max_events = 1'000'000});
//   {
//     TraceSpan span(&tracer, "pipeline", "decode");   // the thread's role, what it does
//     span.arg("samples", block.samples.size());
//     ...
//   }
//   io::write_trace(tracer, {}, *sink);
//
// Spans of one thread are one within another or apart. Names, roles and arguments' names are
// literals, or texts that the tracer keeps.
//
// Buffers: max_events of some 150 bytes. Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "io/base/thread_annotations.h"

namespace millrace {

struct TraceOptions {
  /// Spans and counters kept. Those after them are counted and left out.
  std::size_t max_events = std::size_t{1'000'000};
  /// Records from the beginning of the first step (at_step()) to the end of the last one, counted
  /// from 1. 0: from the tracer's construction, and to its end.
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  /// How often counters are read. 0: never.
  std::chrono::milliseconds interval{20};
  /// Whether plans time each of their steps: spans of layers, for some cost.
  bool layers = false;
};

struct TraceArg {
  const char* name = nullptr;
  std::variant<std::int64_t, double, const char*> value = std::int64_t{0};
};

struct TraceEvent {
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMaxArgs = 6;

  const char* name = nullptr;
  Time begin = {};
  Time end = {};            ///< as `begin`: a counter, whose value is the first argument's
  std::int64_t thread = 0;  ///< the system's number; 0: the one that adds it
  bool is_counter = false;
  std::array<TraceArg, kMaxArgs> args = {};  ///< up to the first without a name
};

/// A quantity that is read at every interval, by the tracer's own thread.
struct TraceGauge {
  std::string name;
  std::function<double()> read;
};

/// What a tracer has recorded.
struct Trace {
  std::deque<TraceEvent> events;
  std::map<std::int64_t, const char*> roles;  ///< of the threads
  std::size_t left_out = 0;                   ///< events over TraceOptions::max_events
  TraceEvent::Time start = {};                ///< of the tracer
  std::chrono::system_clock::time_point wall_start = {};
  /// The moment at which all processes of a run met, and that meeting's name; empty: none.
  TraceEvent::Time met = {};
  std::string meeting = {};
};

class Tracer {
 public:
  explicit Tracer(const TraceOptions& options = {});
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  const TraceOptions& options() const { return options_; }
  /// For the calling thread: one that takes a run's steps records those that it was asked for.
  bool is_recording() const {
    return recording_.load(std::memory_order_relaxed) && !is_outside_steps();
  }
  /// A copy of `text` that lives as long as the tracer; of equal texts there is one.
  const char* keep(std::string_view text);
  /// Adds a span, of the calling thread unless event.thread is set, unless nothing is recorded.
  /// `role` names the thread, if it has no name yet. Never throws: an event for which there is no
  /// memory is left out.
  void span(const char* role, TraceEvent event) noexcept;
  /// A run's step, counted from 1, begins on the calling thread, that of one of `devices` devices.
  /// Its thread records the steps that the options have, all others from the first device's
  /// beginning to the last one's end of them.
  void at_step(std::int64_t step, std::size_t device = 0, std::size_t devices = 1);
  /// All processes of a run are here at this moment: their traces can be laid on one time line.
  void meet(std::string meeting);
  /// Ends recording, and hands over what there is. Lifetime: texts are the tracer's.
  Trace take();

 private:
  friend class TraceGauges;

  /// `role` is null for a counter.
  void add(const char* role, const TraceEvent& event) noexcept;
  void sample_until(const std::stop_token& stop);
  void sample();

  /// Whether the calling thread's last at_step() was of a step that is not recorded.
  bool is_outside_steps() const;

  const TraceOptions options_;
  const std::uint64_t number_;  ///< of this tracer in the program
  const TraceEvent::Time start_ = std::chrono::steady_clock::now();
  const std::chrono::system_clock::time_point wall_start_ = std::chrono::system_clock::now();
  std::atomic<bool> recording_;
  mutable Mutex mutex_;
  bool taken_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::set<std::size_t> ended_ MILLRACE_GUARDED_BY(mutex_);  ///< devices beyond the last step
  Trace trace_ MILLRACE_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> texts_ MILLRACE_GUARDED_BY(mutex_);
  Mutex gauges_mutex_;
  std::map<std::uint64_t, std::pair<const char*, std::function<double()>>> gauges_
      MILLRACE_GUARDED_BY(gauges_mutex_);
  std::uint64_t next_gauge_ MILLRACE_GUARDED_BY(gauges_mutex_) = 0;
  std::jthread sampler_;
};

/// Where the spans of a part of a program go.
struct TraceTrack {
  Tracer* tracer = nullptr;  ///< borrowed; null: nowhere
  const char* role = "";     ///< of its thread; likewise

  bool is_recording() const { return tracer != nullptr && tracer->is_recording(); }
  void span(const TraceEvent& event) const noexcept { tracer->span(role, event); }
};

/// The time that it exists, as a span of the calling thread.
class TraceSpan {
 public:
  TraceSpan(const TraceTrack& track, const char* name)
      : TraceSpan(track.tracer, track.role, name) {}
  /// `tracer` may be null.
  TraceSpan(Tracer* tracer, const char* role, const char* name)
      : tracer_(tracer != nullptr && tracer->is_recording() ? tracer : nullptr), role_(role) {
    if (tracer_ == nullptr) return;
    event_.name = name;
    event_.begin = std::chrono::steady_clock::now();
  }
  ~TraceSpan() {
    if (tracer_ == nullptr) return;
    if (event_.end == TraceEvent::Time()) event_.end = std::chrono::steady_clock::now();
    tracer_->span(role_, event_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  /// Whether it will be recorded: then arguments that cost something are worth it.
  explicit operator bool() const { return tracer_ != nullptr; }
  /// Other times than its own.
  void set_times(TraceEvent::Time begin, TraceEvent::Time end) {
    event_.begin = begin;
    event_.end = end;
  }
  template <std::integral Number>
  void arg(const char* name, Number value) {
    put({name, static_cast<std::int64_t>(value)});
  }
  void arg(const char* name, double value) { put({name, value}); }
  /// The tracer keeps a copy.
  void arg(const char* name, std::string_view text) {
    if (tracer_ != nullptr) put({name, tracer_->keep(text)});
  }

 private:
  void put(const TraceArg& arg) {
    if (tracer_ != nullptr && num_args_ < TraceEvent::kMaxArgs) event_.args[num_args_++] = arg;
  }

  Tracer* tracer_;
  const char* role_;
  TraceEvent event_ = {};
  std::size_t num_args_ = 0;
};

/// Gauges that a tracer reads as long as this exists. Threads: `read` is called on another one, and
/// not after the destructor has returned.
class TraceGauges {
 public:
  TraceGauges() = default;
  /// `tracer` may be null: then nothing is read.
  TraceGauges(Tracer* tracer, std::vector<TraceGauge> gauges);
  ~TraceGauges();
  TraceGauges(const TraceGauges&) = delete;
  TraceGauges& operator=(const TraceGauges&) = delete;

 private:
  Tracer* tracer_ = nullptr;
  std::vector<std::uint64_t> ids_;
};

/// What `total` grows by in a second, between one call and the next.
std::function<double()> growth_per_second(std::function<double()> total);

}  // namespace millrace
