// Cluster: the processes that train together, as fit() and evaluate() see them.
//
// Every process runs the same program with the same options and its own share of the data, and
// calls fit() or evaluate() with its Cluster. Process 0 decides, writes and reports; what it
// decides is told to the others, so that no collective depends on what one process alone knows.
//
//   const auto cluster = make_cluster(topology, transport);
//   fit({.model = model, ..., .devices = threads, .cluster = cluster.get()}, options);
//
// To add one (another network, another launcher): a class derived from Cluster, whose make_group()
// gives one's own Collectives; tests/install/stranger/own_collective.cc is one in one file. Where
// only the messages are one's own, a Transport is less (transport.h).
//
// Threads: one at a time; stop_requested() and abort() from any.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/base/topology.h"
#include "trainer/collectives.h"
#include "trainer/transport.h"

namespace millrace::trainer {

class Cluster {
 public:
  virtual ~Cluster() = default;

  virtual Topology topology() const = 0;
  /// A new group of all replicas of all processes: a handle for each of this process's devices, in
  /// their order. Every process makes its groups in the same order. Lifetime: within the cluster's.
  virtual std::vector<std::unique_ptr<Collectives>> make_group() = 0;

  /// Copies `data` of process `root` to all processes; sizes are equal.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  /// Every process's bytes, in the order of the processes, to all. Sizes may differ.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> data) = 0;
  /// Whether the run should end after the step in flight, as TrainOptions::stop asks: for what a
  /// launcher tells this process. One process that is asked is enough. Default: never.
  virtual bool stop_requested() const { return false; }
  /// Makes what any process waits for, in groups too, throw Cancelled with `reason`; the cluster is
  /// of no use afterwards.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// Every process throws the same from here: nobody needs to be told by abort().
  void fail_alike() noexcept { fails_alike_ = true; }
  bool fails_alike() const noexcept { return fails_alike_; }

 private:
  bool fails_alike_ = false;
};

/// What `decision` gives on process 0, on every process; the others do not call it. What it throws
/// there, every process throws. For what a program settles by itself before fit(): a folder's name,
/// a count. Every process calls it.
std::string decide(Cluster& cluster, const std::function<std::string()>& decision);
/// Does `work` on every process. Where it throws on one of them, all throw: each its own failure,
/// or that of the first process that has one, with its number. Every process calls it.
void all_do(Cluster& cluster, const std::function<void()>& work);

/// This process alone, with so many devices.
std::unique_ptr<Cluster> make_local_cluster(int devices);

/// Processes that send each other messages: the replicas of a process talk through shared memory,
/// and device i of a process with device i of the others. A sum over values needs one message from
/// each process to each other one, and as many bytes in all as the values have, there and back.
/// `transport` is borrowed.
std::unique_ptr<Cluster> make_cluster(const Topology& topology, Transport& transport);

}  // namespace millrace::trainer
