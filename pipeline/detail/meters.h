// Meters: counters that the stages increment and statistics() reads, without locks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "io/base/trace.h"

namespace millrace::pipeline::detail {

struct StageMeter {
  std::atomic<std::uint64_t> items{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::int64_t> busy_ns{0};

  void count(std::size_t num_items, std::size_t num_bytes) {
    items.fetch_add(num_items, std::memory_order_relaxed);
    bytes.fetch_add(num_bytes, std::memory_order_relaxed);
  }
};

/// Processor time that the calling thread, or the whole program, has used.
template <clockid_t kWhose>
struct ProcessorClock {
  static std::chrono::nanoseconds now() {
    timespec time{};
    ::clock_gettime(kWhose, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
};
using ThreadClock = ProcessorClock<CLOCK_THREAD_CPUTIME_ID>;
using ProgramClock = ProcessorClock<CLOCK_PROCESS_CPUTIME_ID>;

/// Adds the time that it exists to a counter of nanoseconds.
template <typename Clock = std::chrono::steady_clock>
class Stopwatch {
 public:
  explicit Stopwatch(std::atomic<std::int64_t>& total_ns) : total_ns_(total_ns) {}
  ~Stopwatch() {
    const auto elapsed = Clock::now() - start_;
    total_ns_.fetch_add(std::chrono::nanoseconds(elapsed).count(), std::memory_order_relaxed);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::atomic<std::int64_t>& total_ns_;
  const decltype(Clock::now()) start_ = Clock::now();
};

/// A stage's work on one message: counted as busy, and traced.
class StageWork {
 public:
  StageWork(StageMeter& meter, Tracer* trace, const char* role, const char* name)
      : busy_(meter.busy_ns), span_(trace, role, name) {}
  TraceSpan& span() { return span_; }

 private:
  const Stopwatch<> busy_;
  TraceSpan span_;
};

/// A number of held bytes, and the most there were.
class ByteGauge {
 public:
  void add(std::size_t bytes) {
    const std::size_t now = held_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::size_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  void subtract(std::size_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::size_t held() const { return held_.load(std::memory_order_relaxed); }
  std::size_t peak() const { return peak_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> peak_{0};
};

/// What it took to continue at a position, of all streams.
struct RestoreMeter {
  std::atomic<std::uint64_t> wanted{0};   ///< samples to be read again
  std::atomic<std::uint64_t> samples{0};  ///< of these, so far
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::int64_t> longest_ns{0};  ///< of the slowest stream

  void add(std::uint64_t stream_bytes, std::int64_t stream_ns) {
    bytes += stream_bytes;
    std::int64_t longest = longest_ns;
    while (longest < stream_ns && !longest_ns.compare_exchange_weak(longest, stream_ns)) continue;
  }
};

struct Meters {
  Tracer* trace = nullptr;  ///< borrowed
  StageMeter read;
  StageMeter merge;
  StageMeter decode;
  StageMeter deliver;
  std::atomic<std::int64_t> read_queue_ns{0};        ///< from reads' requests to their begin
  std::atomic<std::int64_t> decode_processor_ns{0};  ///< of decode.busy_ns
  RestoreMeter restore;
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint64_t> later_faults{0};
  std::atomic<std::uint64_t> untidy{0};
};

}  // namespace millrace::pipeline::detail
