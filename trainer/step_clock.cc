#include "trainer/step_clock.h"

#include <algorithm>
#include <utility>

namespace millrace::trainer {

StepClock::StepClock(std::vector<const Collectives*> groups) : groups_(std::move(groups)) {
  start();
}

void StepClock::start() {
  times_ = {};
  lap_ = std::chrono::steady_clock::now();
  waited_ = peer_wait();
}

std::chrono::nanoseconds StepClock::peer_wait() const {
  std::chrono::nanoseconds sum{0};
  for (const Collectives* group : groups_) sum += group->peer_wait();
  return sum;
}

double StepClock::end_lap() {
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double>(now - lap_).count();
  lap_ = now;
  return elapsed;
}

void StepClock::lap(double StepTimes::*part) {
  times_.*part += end_lap();
  waited_ = peer_wait();
}

void StepClock::lap_collectives() {
  const double elapsed = end_lap();
  const auto waited_now = peer_wait();
  const std::chrono::duration<double> waited = waited_now - waited_;
  const double peers = std::min(elapsed, waited.count());
  times_.peer_wait += peers;
  times_.reduce += elapsed - peers;
  waited_ = waited_now;
}

StepTimes StepClock::take() { return std::exchange(times_, StepTimes{}); }

}  // namespace millrace::trainer
