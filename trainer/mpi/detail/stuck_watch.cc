#include "trainer/mpi/detail/stuck_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "io/base/threads.h"

namespace millrace::trainer::detail {
namespace {

constexpr std::chrono::seconds kSilentWait{2};

}  // namespace

StuckWatch::StuckWatch(StuckWatchOptions options)
    : options_(std::move(options)),
      thread_(start_thread("to watch over MPI", [this] { watch(); })) {}

StuckWatch::~StuckWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void StuckWatch::at(const std::string& awaited) {
  const std::lock_guard lock(mutex_);
  awaited_ = awaited;
}

void StuckWatch::watch() {
  const auto start = std::chrono::steady_clock::now();
  const auto over = [this] { return is_over_; };
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kSilentWait, over)) return;
  options_.log.info(fmt::format("{}: waiting: {}", options_.name, awaited_));
  if (options_.limit.count() == 0) return changed_.wait(lock, over);
  if (!changed_.wait_until(lock, start + options_.limit, over)) give_up(awaited_);
}

// The thread that is inside of MPI can neither be ended nor left behind by an orderly exit.
void StuckWatch::give_up(const std::string& awaited) const {
  const double seconds = std::chrono::duration<double>(options_.limit).count();
  const std::string details = options_.details ? options_.details() : "";
  options_.log.error(fmt::format("{}: {} for {:g} s{}{}", options_.name, awaited, seconds,
                                 details.empty() ? "" : "; ", details));
  ::_exit(1);
}

}  // namespace millrace::trainer::detail
