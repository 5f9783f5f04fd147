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

class Transport {
 public:
  virtual ~Transport() = default;

  /// Sends and receives all of these, in any order: two processes may send to each other at once.
  /// Returns when all incoming messages have arrived and the memory of the outgoing ones may be
  /// reused. Throws: Cancelled with the reason after abort(); InvalidArgument for a message of
  /// another size than its memory; Io if a process cannot be reached.
  virtual void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) = 0;
  /// Makes current and later calls of exchange() throw, on every process, with the reason of the
  /// first abort().
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace millrace::trainer
