// ReplicaGroup: the replicas of this process, their shared weights, and their groups with all
// replicas of the run.
//
// Threads: one at a time; run() works on the devices' threads.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainer/backend.h"
#include "trainer/cluster.h"
#include "trainer/detail/loop/replica.h"
#include "trainer/events.h"
#include "trainer/feed.h"
#include "trainer/replicas.h"

namespace millrace::trainer::detail {

struct GroupSetup {
  const Model& model;
  const Model* evaluation_model = nullptr;  ///< as FitInput's
  const Objective& objective;
  ReplicaThreads& devices;
  Cluster& cluster;            ///< with as many devices per process
  Backend* backend = nullptr;  ///< null: the CPU's
  nn::Precision precision = nn::Precision::kBFloat16;
  bool trains = false;
  Tracer* trace = nullptr;  ///< null: none
};

class ReplicaGroup {
 public:
  explicit ReplicaGroup(const GroupSetup& setup);

  /// Replicas of this process.
  int size() const { return static_cast<int>(replicas_.size()); }
  const Topology& topology() const { return topology_; }
  Backend& backend() { return backend_; }
  DeviceSpan weights() const { return weights_.span; }
  Replica& replica(int device) { return *replicas_[static_cast<std::size_t>(device)]; }
  /// Makes every replica's training step. Throws: as Replica::make_step().
  void make_steps(const TrainOptions& options, const std::vector<DeviceSpan>& states,
                  DeviceSpan ema);
  /// Copies device 0's running statistics to every replica, after the weights were written.
  void spread_from_device0();
  /// What these replicas have compiled since the last call.
  std::vector<CompileEvent> take_compilations();

  /// Runs `work` for every replica on its device's thread, and waits. The first failure aborts the
  /// groups, also in other processes, stops the feed, and is thrown; the group cannot be used
  /// afterwards.
  void run(EpochFeed& feed, const std::function<void(Replica&)>& work);

 private:
  ReplicaThreads& devices_;
  Topology topology_;
  std::unique_ptr<Backend> own_backend_;  ///< if none was given
  Backend& backend_;
  DeviceBuffer weights_;
  std::vector<std::unique_ptr<Collectives>> control_;
  std::vector<std::unique_ptr<Collectives>> gradients_;
  std::vector<std::unique_ptr<Collectives>> weight_groups_;  // none for one process
  std::vector<std::unique_ptr<Replica>> replicas_;
};

}  // namespace millrace::trainer::detail
