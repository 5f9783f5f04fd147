// MpiProcesses: the processes that mpirun or srun started, and the messages between them.
//
//   MpiProcesses processes;  // the first thing that main() does
//   const auto cluster = make_cluster(processes.topology(devices), processes.transport());
//   fit({..., .cluster = cluster.get()}, options);
//
// One thread of its own makes every call of MPI (MPI_THREAD_FUNNELED); what the others ask for is
// handed to it. It sleeps while nothing is under way. MPI's header stays in detail/.
//
// A process that fails calls transport().abort(): the others' exchanges throw Cancelled with its
// reason, host and process number. A process that another one exchanges messages with, and has not
// heard from for MpiOptions::heartbeat_timeout, is taken for dead, and the run ends likewise: every
// pair that talks watches itself, so that a cut between any two hosts is noticed.
//
// Threads: constructed and destroyed by one thread, once per process; transport() from any.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/base/topology.h"
#include "trainer/transport.h"

namespace millrace::trainer {

struct MpiOptions {
  /// How long a process may be silent: its engine thread tells the others once per second that it
  /// is there, whatever the rest of it does. 0: without limit.
  std::chrono::milliseconds heartbeat_timeout{30'000};
  /// How long the processes may take to find each other at the start, and to part at the end. 0:
  /// without limit.
  std::chrono::milliseconds start_timeout{30'000};
  /// How long mpirun may take to end a run on several hosts that has ended itself, until the
  /// process beside it ends mpirun.
  std::chrono::seconds launcher_patience{11};
  /// This process, in lines: "process 1 on node2".
  std::string name = "this process";
  /// Told what a start or an end waits for, after two seconds, and why it is given up.
  Log log = {};
  /// Called once when another process, or its silence, has ended the run, on a thread of this
  /// object: what this process does by itself is in vain. Must not throw.
  std::function<void()> on_end = {};
};

class MpiProcesses {
 public:
  /// Initialises MPI. Ends this process with status 1, and with it the run, if that takes longer
  /// than start_timeout: what has begun within MPI cannot be given up otherwise. Throws:
  /// Unsupported when the MPI library lacks what is needed.
  explicit MpiProcesses(const MpiOptions& options = {});
  /// Finalises MPI when all processes have come here. After an abort: gives the others two seconds
  /// to come here too, so that each has said what it had to say, and ends every process of the run
  /// with status 1 by MPI_Abort.
  ~MpiProcesses();
  MpiProcesses(const MpiProcesses&) = delete;
  MpiProcesses& operator=(const MpiProcesses&) = delete;

  int process() const;
  int processes() const;
  /// The machine's name, as MPI knows it.
  const std::string& host() const;
  /// Those of all processes.
  const std::vector<std::string>& hosts() const;
  /// This process among all and among those of its machine, with `devices` devices each.
  Topology topology(int devices) const;
  /// Lifetime: this object's.
  Transport& transport();
  /// Whether another process has ended the run, and says why.
  bool ended_by_another() const;
  /// Why the run has ended before its time; empty if it has not.
  std::string end_reason() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The MPI library's name and version, before or after MPI is initialised: "Open MPI v4.1.4".
std::string mpi_library();

}  // namespace millrace::trainer
