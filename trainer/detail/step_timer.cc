#include "trainer/detail/step_timer.h"

#include <algorithm>

namespace millrace::trainer::detail {

StepTimer::StepTimer(Replica& replica)
    : replica_(replica), lap_(std::chrono::steady_clock::now()), waited_(peer_wait()) {}

std::chrono::nanoseconds StepTimer::peer_wait() const {
  return replica_.control().peer_wait() + replica_.reducer().peer_wait();
}

double StepTimer::end_lap() {
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double>(now - lap_).count();
  lap_ = now;
  return elapsed;
}

void StepTimer::lap(double StepTimes::*part) {
  times_.*part += end_lap();
  waited_ = peer_wait();
}

void StepTimer::lap_collectives() {
  const double elapsed = end_lap();
  const auto waited_now = peer_wait();
  const std::chrono::duration<double> waited = waited_now - waited_;
  const double peers = std::min(elapsed, waited.count());
  times_.peer_wait += peers;
  times_.reduce += elapsed - peers;
  waited_ = waited_now;
}

}  // namespace millrace::trainer::detail
