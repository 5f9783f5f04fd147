#include "trainer/detail/collectives/meeting_point.h"

#include <algorithm>
#include <thread>

#include "io/base/clock.h"
#include "io/base/error.h"
#include "io/base/machine.h"

namespace millrace::trainer::detail {
namespace {

constexpr std::chrono::microseconds kSpin{50};
constexpr int kLooksAtOnce = 64;  // between two readings of the clock

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

MeetingPoint::MeetingPoint(int ranks, const ThreadCollectivesOptions& options)
    : ranks_(ranks),
      options_(options),
      spins_(ranks <= usable_cores()),
      here_(static_cast<std::size_t>(ranks)) {}

std::chrono::nanoseconds MeetingPoint::meet(int rank) {
  throw_if_aborted();
  const auto came = Clock::now();
  const std::uint64_t meeting = meeting_.load(std::memory_order_relaxed);
  here_[static_cast<std::size_t>(rank)].store(meeting + 1, std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) {
    open(meeting, came);
    return {};
  }
  if (!(spins_ && spin(meeting, came))) sleep(meeting);
  // The next meeting cannot write last_came_ before this rank has arrived there.
  return std::max(std::chrono::nanoseconds(0), last_came_ - came);
}

void MeetingPoint::abort(const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (!aborted_) {
    try {
      reason_ = reason;
    } catch (...) {  // no memory for the reason: the abort itself must still happen
    }
    aborted_ = true;
  }
  changed_.notify_all();
}

// A sleeper counts itself before it reads meeting_, and the last rank writes meeting_ before it
// reads the count: one of the two sees the other.
void MeetingPoint::open(std::uint64_t meeting, Clock::time_point came) {
  last_came_ = came;
  arrived_.store(0, std::memory_order_relaxed);
  meeting_.store(meeting + 1);
  if (sleepers_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

bool MeetingPoint::spin(std::uint64_t meeting, Clock::time_point came) const {
  while (Clock::now() - came < kSpin) {
    for (int i = 0; i < kLooksAtOnce; ++i) {
      if (is_over(meeting)) return true;
      pause_core();
    }
    if (aborted_) return false;
  }
  return false;
}

void MeetingPoint::sleep(std::uint64_t meeting) {
  std::unique_lock lock(mutex_);
  ++sleepers_;
  const auto over = [&] { return meeting_.load() != meeting || aborted_; };
  if (options_.timeout.count() == 0) {
    changed_.wait(lock, over);
  } else if (!changed_.wait_for(lock, bounded(options_.timeout), over)) {
    reason_ =
        "waited " + std::to_string(options_.timeout.count()) + " ms for rank" + missing(meeting);
    aborted_ = true;
    changed_.notify_all();
  }
  --sleepers_;
  lock.unlock();
  if (!is_over(meeting)) throw_if_aborted();
}

std::string MeetingPoint::missing(std::uint64_t meeting) const {
  std::string ranks;
  for (std::size_t r = 0; r < here_.size(); ++r) {
    if (here_[r].load(std::memory_order_relaxed) > meeting) continue;
    ranks += ' ';
    ranks += std::to_string(r);
  }
  return ranks;
}

void MeetingPoint::throw_if_aborted() {
  if (!aborted_) return;
  const std::lock_guard lock(mutex_);
  throw Error(ErrorCode::kCancelled, "the replicas' group ended: " + reason_);
}

}  // namespace millrace::trainer::detail
