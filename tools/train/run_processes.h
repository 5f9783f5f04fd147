// RunProcesses: the processes of a run, as the program sees them: this one alone, or those that
// mpirun or srun started, where the program was built with MPI.
//
//   RunProcesses processes(devices);
//   fit({..., .cluster = &processes.cluster()}, options);
//
// Threads: one at a time.
#pragma once

#include <memory>

#include "tools/train/launcher.h"
#include "trainer/cluster.h"

namespace millrace::tools {

class RunProcesses {
 public:
  /// Each process has so many devices. Under a launcher that started several processes it waits
  /// until all have come here. Throws: InvalidArgument where their number is not what the
  /// launcher's environment says, and where this program has no MPI.
  explicit RunProcesses(int devices);
  RunProcesses(int devices, const Environment& environment);
  /// Under a launcher: waits until all have come here.
  ~RunProcesses();
  RunProcesses(const RunProcesses&) = delete;
  RunProcesses& operator=(const RunProcesses&) = delete;

  trainer::Cluster& cluster() { return *cluster_; }
  /// This process's share of the cores: those that the launcher bound it to, or, where it has all
  /// of the machine, its part of them.
  int num_cores() const;

 private:
  class Started;

  std::unique_ptr<Started> started_;  ///< null: this process alone
  std::unique_ptr<trainer::Cluster> cluster_;
};

}  // namespace millrace::tools
