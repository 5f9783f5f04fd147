#include "trainer/detail/loop/run_stop.h"

#include <chrono>

#include "io/base/threads.h"

namespace millrace::trainer::detail {
namespace {

/// Between two readings of the options' clock.
constexpr std::chrono::milliseconds kLook{100};

}  // namespace

RunStop::RunStop(const TrainOptions& options, const Cluster& cluster)
    : options_(options),
      cluster_(cluster),
      begin_(options.now()),
      forward_(options.stop, [this] { source_.request_stop(); }) {
  if (options.max_time.count() > 0 || cluster.topology().processes > 1)
    watch_ = start_thread("to watch for the run's end",
                          [this](const std::stop_token& end) { watch(end); });
}

bool RunStop::is_late() const {
  return options_.max_time.count() > 0 && options_.now() - begin_ > options_.max_time;
}

std::string RunStop::reason() const {
  if (options_.stop.stop_requested() || cluster_.stop_requested()) return "signal";
  return is_late() ? "max-time" : "";
}

void RunStop::watch(const std::stop_token& end) {
  while (reason().empty()) {
    if (!Clock::system().sleep_for(kLook, end)) return;
  }
  source_.request_stop();
}

}  // namespace millrace::trainer::detail
