#include "trainer/detail/loop/run_stop.h"

#include <chrono>

#include "io/base/clock.h"
#include "io/base/error.h"
#include "io/base/threads.h"

namespace millrace::trainer::detail {
namespace {

/// Between two readings of the options' clock.
constexpr std::chrono::milliseconds kLook{100};

bool is_cancelled(const std::exception_ptr& failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.code() == ErrorCode::kCancelled;
  } catch (...) {
  }
  return false;
}

}  // namespace

RunStop::RunStop(const TrainOptions& options, Processes& processes)
    : options_(options),
      processes_(processes),
      begin_(options.now()),
      forward_(options.stop, [this] { source_.request_stop(); }) {
  if (options.max_time.count() > 0 || !processes.is_alone())
    watch_ = start_thread("to watch for the run's end",
                          [this](const std::stop_token& end) { watch(end); });
}

bool RunStop::is_late() const {
  return options_.max_time.count() > 0 && options_.now() - begin_ > bounded(options_.max_time);
}

std::string RunStop::reason() const {
  if (options_.stop.stop_requested() || processes_.cluster().stop_requested()) return "signal";
  return is_late() ? "max-time" : "";
}

void RunStop::agree() {
  for (const std::string& one : processes_.gather(reason())) {
    if (stopped_by_.empty() || one == "signal") stopped_by_ = one;
  }
}

void RunStop::agree(const std::exception_ptr& input_failure) {
  const bool is_stop = is_cancelled(input_failure) && !reason().empty();
  processes_.throw_any(is_stop ? nullptr : input_failure);
  agree();
}

void RunStop::watch(const std::stop_token& end) {
  while (reason().empty()) {
    if (!Clock::system().sleep_for(kLook, end)) return;
  }
  source_.request_stop();
}

}  // namespace millrace::trainer::detail
