// Partners: how processes whose number is a power of two sum and gather in few messages, each
// with the process whose number differs in one bit: 1 apart first, then 2, 4, ... So the sums are
// those of one binary tree over the processes, and a process exchanges log2(processes) messages
// instead of one with each other process, and no more bytes.
//
//   const Partners partners(process, processes);   // exchange(partner, outgoing, incoming)
//   partners.sum(values, memory, exchange);                // all have the sum of all
//   partners.reduce_scatter(parts, at, memory, exchange);  // part i of parts: [at[i], at[i + 1])
//   partners.all_gather(parts, at, exchange);
//
// Parts lie in the order in which halves are given away: part i belongs to process_at(i). `memory`
// is as large as the values, for those that are received.
//
// Threads: const from any; `exchange` may be called from the caller's alone.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>

namespace millrace::trainer::detail {

class Partners {
 public:
  /// Requires: fits(processes).
  Partners(int process, int processes) : process_(process), processes_(processes) {}

  /// With two processes there is nothing to save.
  static bool fits(int processes) {
    return processes > 2 && std::has_single_bit(static_cast<unsigned>(processes));
  }

  /// Whose part lies at a place: its number's bits in reverse.
  int process_at(std::size_t place) const {
    int process = 0;
    for (int bit = 1; bit < processes_; bit *= 2) {
      process = 2 * process + static_cast<int>(place & 1U);
      place >>= 1U;
    }
    return process;
  }

  template <typename T, typename Exchange>
  void sum(std::span<T> values, std::span<T> theirs, const Exchange& exchange) const {
    for (int bit = 1; bit < processes_; bit *= 2) {
      exchange(process_ ^ bit, std::as_bytes(values), std::as_writable_bytes(theirs));
      add<T>(values, theirs);
    }
  }

  /// Leaves in this process's part the sum over the processes; the others are of no use then.
  template <typename T, typename Exchange>
  void reduce_scatter(std::span<T> parts, std::span<const std::size_t> at, std::span<T> memory,
                      const Exchange& exchange) const {
    std::size_t begin = 0;
    std::size_t end = at.size() - 1;
    for (int bit = 1; bit < processes_; bit *= 2) {
      const std::size_t middle = (begin + end) / 2;
      const std::span<T> low = range(parts, at, begin, middle);
      const std::span<T> high = range(parts, at, middle, end);
      const bool is_high = (process_ & bit) != 0;
      const std::span<T> kept = is_high ? high : low;
      const std::span<T> theirs = memory.first(kept.size());
      exchange(process_ ^ bit, std::as_bytes(is_high ? low : high), std::as_writable_bytes(theirs));
      add<T>(kept, theirs);
      (is_high ? begin : end) = middle;
    }
  }

  /// Gives every process all parts, of which each has its own.
  template <typename T, typename Exchange>
  void all_gather(std::span<T> parts, std::span<const std::size_t> at,
                  const Exchange& exchange) const {
    auto begin = static_cast<std::size_t>(process_at(static_cast<std::size_t>(process_)));
    std::size_t count = 1;
    for (int bit = processes_ / 2; bit > 0; bit /= 2) {
      const bool is_high = (process_ & bit) != 0;
      const std::size_t other = is_high ? begin - count : begin + count;
      exchange(process_ ^ bit, std::as_bytes(range(parts, at, begin, begin + count)),
               std::as_writable_bytes(range(parts, at, other, other + count)));
      begin = std::min(begin, other);
      count *= 2;
    }
  }

 private:
  template <typename T>
  static std::span<T> range(std::span<T> parts, std::span<const std::size_t> at, std::size_t begin,
                            std::size_t end) {
    return parts.subspan(at[begin], at[end] - at[begin]);
  }

  template <typename T>
  static void add(std::span<T> into, std::span<const T> values) {
    std::ranges::transform(into, values, into.begin(), std::plus<>());
  }

  int process_;
  int processes_;
};

}  // namespace millrace::trainer::detail
