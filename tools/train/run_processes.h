// RunProcesses: the processes of a run, as the program sees them: this one alone, or those that
// mpirun or srun started, where the program was built with MPI.
//
//   RunProcesses processes(run_options);
//   fit({..., .cluster = &processes.cluster()}, options);
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>

#include "device/device.h"
#include "tools/train/launcher.h"
#include "tools/train/run_options.h"
#include "trainer/cluster.h"

namespace millrace::tools {

class RunProcesses {
 public:
  /// Makes the devices of this process, and leaves in run.topology where it stands. Under a
  /// launcher that started several processes it waits until all have come here. Throws:
  /// InvalidArgument where their number is not what the launcher's environment says, and where this
  /// program has no MPI.
  explicit RunProcesses(RunOptions& run);
  /// Under a launcher: waits until all have come here.
  ~RunProcesses();
  RunProcesses(const RunProcesses&) = delete;
  RunProcesses& operator=(const RunProcesses&) = delete;

  trainer::Cluster& cluster() { return *cluster_; }
  const device::DeviceSet& devices() const { return *devices_; }

 private:
  class Started;

  void join(int devices, const Environment& environment);
  /// This process's share: those that the launcher bound it to, or, where it has all of the
  /// machine, its part of them.
  int num_cores() const;

  std::unique_ptr<Started> started_;  ///< null: this process alone
  std::unique_ptr<trainer::Cluster> cluster_;
  std::optional<device::DeviceSet> devices_;
};

}  // namespace millrace::tools
