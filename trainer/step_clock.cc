#include "trainer/step_clock.h"

#include <algorithm>
#include <utility>

namespace millrace::trainer {

namespace {

const char* lap_name(double StepTimes::*part) {
  for (const StepTimes::Part& one : StepTimes::parts())
    if (one.value == part) return one.name.data();  // a literal
  return "";
}

}  // namespace

StepClock::StepClock(std::vector<const Collectives*> groups, const TraceTrack& trace)
    : groups_(std::move(groups)), trace_(trace) {
  start();
}

void StepClock::start() {
  times_ = {};
  lap_ = step_ = std::chrono::steady_clock::now();
  waited_ = peer_wait();
}

std::chrono::nanoseconds StepClock::peer_wait() const {
  std::chrono::nanoseconds sum{0};
  for (const Collectives* group : groups_) sum += group->peer_wait();
  return sum;
}

double StepClock::end_lap(const char* name) {
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double>(now - lap_).count();
  if (trace_.is_recording()) trace_.span({.name = name, .begin = lap_, .end = now});
  lap_ = now;
  return elapsed;
}

void StepClock::lap(double StepTimes::*part) {
  times_.*part += end_lap(lap_name(part));
  waited_ = peer_wait();
}

void StepClock::lap_collectives() {
  const double elapsed = end_lap("reduce");
  const auto waited_now = peer_wait();
  const std::chrono::duration<double> waited = waited_now - waited_;
  const double peers = std::min(elapsed, waited.count());
  times_.peer_wait += peers;
  times_.reduce += elapsed - peers;
  waited_ = waited_now;
}

void StepClock::end_step(const StepEvent& step, const pipeline::Batch* batch) {
  const auto begin = std::exchange(step_, lap_);
  if (!trace_.is_recording()) return;
  TraceSpan span(trace_, "step");
  span.set_times(begin, lap_);
  span.arg("step", step.global_step);
  if (batch != nullptr) pipeline::trace_batch(*batch, span);
}

StepTimes StepClock::take() { return std::exchange(times_, StepTimes{}); }

}  // namespace millrace::trainer
