#include "io/base/trace.h"

#include <unistd.h>

#include "io/base/clock.h"
#include "io/base/machine.h"
#include "io/base/threads.h"

namespace millrace {
namespace {

std::int64_t own_thread() {
  thread_local const std::int64_t id = ::gettid();
  return id;
}

std::uint64_t new_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

/// The tracer whose steps this thread takes, while they are not recorded.
thread_local std::uint64_t outside_of = 0;

}  // namespace

Tracer::Tracer(const TraceOptions& options)
    : options_(options), number_(new_number()), recording_(options.first_step == 0) {
  if (options_.interval.count() > 0)
    sampler_ = start_thread("to read a trace's counters",
                            [this](const std::stop_token& stop) { sample_until(stop); });
}

Tracer::~Tracer() = default;

const char* Tracer::keep(std::string_view text) {
  MutexLock lock(mutex_);
  const auto known = texts_.find(text);
  return (known == texts_.end() ? texts_.emplace(text).first : known)->c_str();
}

void Tracer::span(const char* role, TraceEvent event) noexcept {
  if (!is_recording()) return;
  if (event.thread == 0) event.thread = own_thread();
  add(role, event);
}

void Tracer::add(const char* role, const TraceEvent& event) noexcept {
  MutexLock lock(mutex_);
  if (taken_) return;
  try {
    if (role != nullptr) trace_.roles.emplace(event.thread, role);
    if (trace_.events.size() < options_.max_events) return trace_.events.push_back(event);
  } catch (...) {  // no memory
  }
  ++trace_.left_out;
}

bool Tracer::is_outside_steps() const { return outside_of == number_; }

void Tracer::at_step(std::int64_t step, std::size_t device, std::size_t devices) {
  if (options_.first_step == 0 && options_.last_step == 0) return;
  const bool has_ended = options_.last_step > 0 && step > options_.last_step;
  const bool is_inside = step >= options_.first_step && !has_ended;
  outside_of = is_inside ? 0 : number_;
  if (is_inside) recording_ = true;
  if (!has_ended) return;
  MutexLock lock(mutex_);
  ended_.insert(device);
  if (ended_.size() == devices) recording_ = false;
}

void Tracer::meet(std::string meeting) {
  MutexLock lock(mutex_);
  trace_.met = std::chrono::steady_clock::now();
  trace_.meeting = std::move(meeting);
}

Trace Tracer::take() {
  recording_ = false;
  MutexLock lock(mutex_);
  taken_ = true;
  trace_.start = start_;
  trace_.wall_start = wall_start_;
  return std::move(trace_);
}

void Tracer::sample_until(const std::stop_token& stop) {
  while (Clock::system().sleep_for(options_.interval, stop))
    if (is_recording()) sample();
}

void Tracer::sample() {
  const auto counter = [&](const char* name, double value) {
    const auto now = std::chrono::steady_clock::now();
    TraceEvent event{.name = name, .begin = now, .end = now, .is_counter = true};
    event.args.front() = {"value", value};
    add(nullptr, event);
  };
  counter("resident MB", 1e-6 * static_cast<double>(resident_memory()));
  MutexLock lock(gauges_mutex_);
  for (const auto& [id, gauge] : gauges_) counter(gauge.first, gauge.second());
}

TraceGauges::TraceGauges(Tracer* tracer, std::vector<TraceGauge> gauges) : tracer_(tracer) {
  if (tracer_ == nullptr) return;
  MutexLock lock(tracer_->gauges_mutex_);
  for (TraceGauge& gauge : gauges) {
    ids_.push_back(tracer_->next_gauge_++);
    tracer_->gauges_[ids_.back()] = {tracer_->keep(gauge.name), std::move(gauge.read)};
  }
}

TraceGauges::~TraceGauges() {
  if (tracer_ == nullptr) return;
  MutexLock lock(tracer_->gauges_mutex_);
  for (const std::uint64_t id : ids_) tracer_->gauges_.erase(id);
}

std::function<double()> growth_per_second(std::function<double()> total) {
  return [total = std::move(total), last = 0.0, at = std::chrono::steady_clock::now()]() mutable {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - at).count();
    const double value = total();
    const double growth = seconds > 0 ? (value - last) / seconds : 0.0;
    last = value;
    at = now;
    return growth;
  };
}

}  // namespace millrace
