// Transport: messages between the processes of a run, below a Cluster (cluster.h).
//
// A message is sent from one process to another with a tag; those of one sender and tag arrive in
// the order in which they were sent. Several threads may exchange at once, each with its own tags.
//
//   transport.exchange({{.process = 1, .tag = 7, .data = mine}}, {{.process = 1, .tag = 7, .data =
//   theirs}});
//
// To add one: a class derived from Transport, passed to make_cluster().
// tests/trainer/fake_transport.h is one within a process.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace millrace::trainer {

/// A message to `process`, borrowed.
struct Outgoing {
  int process = 0;
  std::uint32_t tag = 0;
  std::span<const std::byte> data = {};
};

/// The memory for a message from `process`, of the message's size.
struct Incoming {
  int process = 0;
  std::uint32_t tag = 0;
  std::span<std::byte> data = {};
};

/// Sums over the processes that a transport's own library computes, in an order of its own. Part i
/// of an array, [at[i], at[i + 1]), is process i's.
///
/// Threads: one at a time.
class TransportSums {
 public:
  virtual ~TransportSums() = default;

  /// `own` = the sum over the processes of their values in this process's part.
  virtual void reduce_scatter(std::span<const float> values, std::span<const std::size_t> at,
                              std::span<float> own) = 0;
  /// Fills `values` with every process's part.
  virtual void all_gather(std::span<const float> own, std::span<const std::size_t> at,
                          std::span<float> values) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  /// Sends and receives all of these, in any order: two processes may send to each other at once.
  /// Returns when all incoming messages have arrived and the memory of the outgoing ones may be
  /// reused. Throws: Cancelled with the reason after abort(); InvalidArgument for a message of
  /// another size than its memory; Io if a process cannot be reached.
  virtual void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) = 0;
  /// Requires: every process makes its sums in the same order, and calls them alike. Default, and
  /// Throws: Unsupported where the transport has none. A collective. Lifetime: the transport must
  /// outlive them.
  virtual std::unique_ptr<TransportSums> make_sums();
  /// Makes current and later calls of exchange(), and of sums, throw, on every process, with the
  /// reason of the first abort().
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace millrace::trainer
