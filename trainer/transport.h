// Transport: messages between the processes of a run, below a Cluster (cluster.h).
//
// A message goes from one process to another under a tag; those of one sender and tag arrive in the
// order in which they were sent. Several threads exchange at once, each under tags of its own.
//
//   transport.exchange({{.process = 1, .tag = 7, .data = mine}}, {{.process = 1, .tag = 7, .data =
//   theirs}});
//
// To add one: a class derived from Transport and make_cluster(). tests/trainer/fake_transport.h is
// one within a process.
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

/// Where a message from `process` goes; as large as the message.
struct Incoming {
  int process = 0;
  std::uint32_t tag = 0;
  std::span<std::byte> data = {};
};

class Transport {
 public:
  virtual ~Transport() = default;

  /// Sends and receives all of these, in whatever order they get through: two processes may send to
  /// each other at once. Returns when all have arrived here and what is sent may be reused.
  /// Throws: Cancelled with the reason after abort(); InvalidArgument for a message of another size
  /// than the place for it; Io when a process cannot be reached.
  virtual void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) = 0;
  /// Makes every exchange(), running or to come, of every process throw; the first reason stays.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace millrace::trainer
