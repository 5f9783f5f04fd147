// Collectives: the operations that all replicas of a run do together.
//
// Every rank makes the same calls in the same order, with the same sizes. Sums are one binary tree
// over the ranks (a node of n ranks is the sum of its first ranks, the largest power of two below
// n, and of the others), so that they have the same bits at any timing and however the ranks are
// spread over processes. A rank that fails calls abort(), which makes every other rank's current
// and later calls throw Cancelled.
//
//   auto group = make_thread_collectives(devices.size());   // group[r] is for rank r's thread
//   group[r]->all_reduce(sums);
//
// To add one: a class derived from Collectives, which a Cluster (cluster.h) passes to fit();
// tests/trainer/collectives_conformance.h specifies it.
//
// Threads: one thread per rank (a second thread of a rank takes a second group); abort() and
// peer_wait() from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace millrace::trainer {

/// Values [first, second).
using ValueRange = std::pair<std::size_t, std::size_t>;

class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;

  /// The part [first, second) of n values that belongs to `rank`. The ranks' parts tile the values
  /// in their order. Default: equal but for rounding, bounds at multiples of 16 except n itself.
  virtual ValueRange slice(std::size_t n, int rank) const;

  /// Replaces every rank's `values` by their sum over the ranks.
  virtual void all_reduce(std::span<float> values) = 0;
  virtual void all_reduce(std::span<double> values) = 0;
  /// Replaces this rank's slice() of `values` by the sum over the ranks. The rest is unchanged.
  virtual void reduce_scatter(std::span<float> values) = 0;
  /// Copies every rank's slice() of its `values` to all ranks. Ranks may pass the same memory.
  virtual void all_gather(std::span<float> values) = 0;
  /// As all_gather(), but between processes the values in `rounded`, parts in ascending order, may
  /// arrive rounded to bf16. Default: exact.
  virtual void all_gather_rounded(std::span<float> values, std::span<const ValueRange> rounded);
  /// Copies `data` of rank `root` to all ranks.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  /// Returns every rank's bytes, in the order of the ranks, on every rank. Sizes may differ.
  virtual std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> data) = 0;
  /// Returns when every rank has called it.
  virtual void barrier() = 0;
  /// The total time that this rank has waited in collectives for ranks that entered them later,
  /// without the collectives' own work. Default: 0, not measured.
  virtual std::chrono::nanoseconds peer_wait() const { return {}; }
  /// Ends the group: the ranks' current and later calls throw Cancelled with the reason of the
  /// first abort().
  virtual void abort(const std::string& reason) noexcept = 0;
};

struct ThreadCollectivesOptions {
  /// How long a rank waits for the others before it aborts the group, with the ranks that are
  /// missing. 0: no limit.
  std::chrono::milliseconds timeout{0};
};

/// A group of threads of this process, through shared memory; one handle per rank. A waiting rank
/// spins for some 50 µs, if there is a core for each, and then sleeps; up to 512 bytes are summed
/// in one rendezvous of the ranks. abort() releases the others within 100 ms. Sizes that differ
/// between ranks throw InvalidArgument on every rank.
std::vector<std::unique_ptr<Collectives>> make_thread_collectives(
    int world, const ThreadCollectivesOptions& options = {});

}  // namespace millrace::trainer
