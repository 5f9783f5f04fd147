// Cluster: the processes that train together, as fit() and evaluate() see them.
//
// Every process runs the same program with the same options and its own share of the data, and
// calls fit() or evaluate() with its Cluster. Process 0 decides, writes and reports; its decisions
// are broadcast, so that no collective depends on what one process alone knows.
//
//   const auto cluster = make_cluster(topology, transport);
//   fit({.model = model, ..., .devices = threads, .cluster = cluster.get()}, options);
//
// To add one (another network, another launcher): a class derived from Cluster, whose make_group()
// returns its own Collectives; tests/install/user_project/own_collective.cc is an example. If only
// the messages between processes differ, derive from Transport instead (transport.h).
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
  /// their order. Requires: every process makes its groups in the same order. Lifetime: the cluster
  /// must outlive them.
  virtual std::vector<std::unique_ptr<Collectives>> make_group() = 0;

  /// Copies `data` of process `root` to all processes. Requires: equal sizes. A collective.
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  /// Returns every process's bytes, in the order of the processes, on every process. Sizes may
  /// differ. A collective.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> data) = 0;
  /// Whether a launcher has requested that the run end after the current step, as
  /// TrainOptions::stop does; one process suffices. Default: never.
  virtual bool stop_requested() const { return false; }
  /// Makes current and later calls that wait for another process, in groups too, throw Cancelled
  /// with `reason`, on all processes. The cluster cannot be used afterwards.
  virtual void abort(const std::string& reason) noexcept = 0;

  /// Every process throws the same from here: nobody needs to be told by abort().
  void fail_alike() noexcept { fails_alike_ = true; }
  bool fails_alike() const noexcept { return fails_alike_; }

 private:
  bool fails_alike_ = false;
};

/// Calls `decision` on process 0 only, and returns its result on every process; an exception is
/// thrown on every process. For what a program decides itself before fit(): a folder's name, a
/// count. A collective.
std::string decide(Cluster& cluster, const std::function<std::string()>& decision);
/// Does `work` on every process. Where it throws on one of them, all throw: each its own failure,
/// or that of the first process that has one, with its number. Every process calls it.
void all_do(Cluster& cluster, const std::function<void()>& work);

/// This process alone, with `devices` devices. Its abort() does nothing: no other process waits.
std::unique_ptr<Cluster> make_local_cluster(int devices);

/// How gradients are summed over processes, and weights gathered.
enum class SumsBy {
  kTree,       ///< one binary tree over the replicas: the same bits for every layout, run after run
  kTransport,  ///< TransportSums, whose order, and so bits, are its own
};

struct ClusterOptions {
  SumsBy sums = SumsBy::kTree;
  /// Whether processes send each other gradients (what Collectives::reduce_scatter() sums) rounded
  /// to bf16: half the bytes, other values. With SumsBy::kTree.
  bool bf16_gradients = false;
};

/// Processes that exchange messages: the replicas of a process communicate through shared memory,
/// device i of a process with device i of the others through `transport`. A process sends about as
/// many bytes for a sum as the values have, and receives as many, in one message to each other
/// process, or, if processes and devices are powers of two, in 2 log2(processes) messages.
/// Requires: all processes pass the same options. Lifetime: `transport` is borrowed. Throws:
/// InvalidArgument for a process number that is not below `processes`, and for bf16 gradients in
/// sums of the transport's own.
std::unique_ptr<Cluster> make_cluster(const Topology& topology, Transport& transport,
                                      const ClusterOptions& options = {});

}  // namespace millrace::trainer
