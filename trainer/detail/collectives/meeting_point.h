// MeetingPoint: where the threads of a group wait for each other.
//
// A rank that arrives early spins for a short while, since its peers mostly arrive within
// microseconds and waking a thread takes tens of them; then it sleeps.
//
// Threads: one per rank; abort() from any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/collectives.h"

namespace millrace::trainer::detail {

class MeetingPoint {
 public:
  MeetingPoint(int ranks, const ThreadCollectivesOptions& options);

  /// Returns when every rank has arrived: the time from this one's arrival to the last one's.
  /// Throws: Cancelled after abort().
  std::chrono::nanoseconds meet(int rank);
  /// Makes current and later calls of meet() throw, with the first reason.
  void abort(const std::string& reason) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  void open(std::uint64_t meeting, Clock::time_point came);
  bool is_over(std::uint64_t meeting) const {
    return meeting_.load(std::memory_order_acquire) != meeting;
  }
  bool spin(std::uint64_t meeting, Clock::time_point came) const;
  void sleep(std::uint64_t meeting);
  std::string missing(std::uint64_t meeting) const;
  void throw_if_aborted();

  const int ranks_;
  const ThreadCollectivesOptions options_;
  const bool spins_;
  std::vector<std::atomic<std::uint64_t>> here_;  ///< the last meeting of each rank, + 1
  Clock::time_point last_came_;                   ///< ordered by meeting_
  std::atomic<int> arrived_{0};
  std::atomic<std::uint64_t> meeting_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string reason_;  ///< guarded by mutex_
};

}  // namespace millrace::trainer::detail
