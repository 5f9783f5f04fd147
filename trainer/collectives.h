// Collectives: what the replicas of a run do together.
//
// Every rank makes the same calls in the same order, with the same sizes. Sums are taken in the
// order of the ranks, so that they have the same bits whatever the timing. A rank that fails calls
// abort(), which makes every other rank's waiting or later call throw Cancelled within 100 ms.
//
//   auto group = make_thread_collectives(devices.size());   // group[r] goes to rank r's thread
//   group[r]->all_reduce(sums);
//
// Threads: one thread a rank (a second thread of a rank takes a second group); abort() from any
// thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace millrace::trainer {

class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;

  /// Leaves in every rank's `values` the sum over the ranks.
  virtual void all_reduce(std::span<float> values) = 0;
  virtual void all_reduce(std::span<double> values) = 0;
  /// Leaves in this rank's slice() of `values` the sum over the ranks. The rest is unchanged.
  virtual void reduce_scatter(std::span<float> values) = 0;
  /// Copies `data` of rank `root` to all ranks.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  /// Every rank's bytes, in the order of the ranks, to all ranks. Sizes may differ.
  virtual std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> data) = 0;
  virtual void barrier() = 0;
  /// Time that this rank has waited in collectives for ranks that came to them later, so far; what
  /// a collective itself takes is not in it. Default: not known, 0. Threads: any.
  virtual std::chrono::nanoseconds peer_wait() const { return {}; }
  /// Ends the group: `reason` is in what the others throw. The first reason stays.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// The part of n values that belongs to `rank`: [first, second), bounds at multiples of 16 but
  /// for n itself.
  static std::pair<std::size_t, std::size_t> slice(std::size_t n, int rank, int world);
};

struct ThreadCollectivesOptions {
  /// How long a rank waits for the others before it aborts the group, naming who is missing;
  /// 0 is for ever.
  std::chrono::milliseconds timeout{0};
};

/// A group of threads of this process, through shared memory; one handle a rank. A rank that waits
/// spins for some 50 µs, where there is a core for each, and then sleeps; up to 512 bytes are
/// summed in one meeting of the ranks.
std::vector<std::unique_ptr<Collectives>> make_thread_collectives(
    int world, const ThreadCollectivesOptions& options = {});

}  // namespace millrace::trainer
