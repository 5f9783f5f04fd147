// Collectives: what the replicas of a run do together.
//
// Every rank makes the same calls in the same order, with the same sizes. Sums are one binary tree
// over the ranks (a node of n ranks is the sum of its first ranks, the largest power of two below
// n, and of the others), so that they have the same bits whatever the timing and however the ranks
// are spread over processes. A rank that fails calls abort(), which makes every other rank's
// waiting or later call throw Cancelled.
//
//   auto group = make_thread_collectives(devices.size());   // group[r] goes to rank r's thread
//   group[r]->all_reduce(sums);
//
// To add one: a class derived from Collectives, handed to fit() by a Cluster (cluster.h);
// tests/trainer/collectives_conformance.h says what it must do.
//
// Threads: one thread a rank (a second thread of a rank takes a second group); abort() and
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

class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;

  /// The part of n values that belongs to `rank`: [first, second). The ranks' parts tile the values
  /// in their order. Default: equal but for rounding, bounds at multiples of 16 but for n itself.
  virtual std::pair<std::size_t, std::size_t> slice(std::size_t n, int rank) const;

  /// Leaves in every rank's `values` the sum over the ranks.
  virtual void all_reduce(std::span<float> values) = 0;
  virtual void all_reduce(std::span<double> values) = 0;
  /// Leaves in this rank's slice() of `values` the sum over the ranks. The rest is unchanged.
  virtual void reduce_scatter(std::span<float> values) = 0;
  /// Gives every rank's slice() of its `values` to all ranks. Ranks may pass the same memory.
  virtual void all_gather(std::span<float> values) = 0;
  /// Copies `data` of rank `root` to all ranks.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  /// Every rank's bytes, in the order of the ranks, to all ranks. Sizes may differ.
  virtual std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> data) = 0;
  /// Returns when every rank has called it.
  virtual void barrier() = 0;
  /// Time that this rank has waited in collectives for ranks that came to them later, so far; what
  /// a collective itself takes is not in it. Default: not known, 0.
  virtual std::chrono::nanoseconds peer_wait() const { return {}; }
  /// Ends the group: `reason` is in what the others throw. The first reason stays.
  virtual void abort(const std::string& reason) noexcept = 0;
};

struct ThreadCollectivesOptions {
  /// How long a rank waits for the others before it aborts the group, naming who is missing;
  /// 0: without limit.
  std::chrono::milliseconds timeout{0};
};

/// A group of threads of this process, through shared memory; one handle a rank. A rank that waits
/// spins for some 50 µs, where there is a core for each, and then sleeps; up to 512 bytes are
/// summed in one meeting of the ranks. abort() releases the others within 100 ms.
/// Throws, from every rank: InvalidArgument for sizes that differ between ranks.
std::vector<std::unique_ptr<Collectives>> make_thread_collectives(
    int world, const ThreadCollectivesOptions& options = {});

}  // namespace millrace::trainer
