// Topology: the position of this process among those of one run, and how many devices it has.
//
// A pipeline's data is split by process; the devices of a process take its slots in turn.
// Replicas are counted over all of them: a replica's rank is process * devices + device, and the
// world size is processes * devices. Every process of a run has the same number of devices.
//
// Threads: a value type.
#pragma once

namespace millrace {

struct Topology {
  int process = 0;         ///< of all processes of the run: 0 <= process < processes
  int processes = 1;       ///< of the run
  int node_process = 0;    ///< of those on this machine: 0 <= node_process < node_processes
  int node_processes = 1;  ///< on this machine
  int devices = 1;         ///< of this process, and of each other one

  /// The rank of this process's first replica; its others have the ranks that follow.
  constexpr int first_rank() const { return process * devices; }
  /// The number of replicas in the run.
  constexpr int world_size() const { return processes * devices; }

  friend bool operator==(const Topology&, const Topology&) = default;
};

}  // namespace millrace
