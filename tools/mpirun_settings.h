// What Open MPI's mpirun was told, as far as it decides how a run ends: its settings (MCA
// parameters), which it passes on to the processes, or which are in a file.
//
// Threads: functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/launcher.h"

namespace millrace::tools {

/// Whether mpirun started this process.
bool is_of_mpirun(const Environment& environment);

/// The value of `name`: the environment's OMPI_MCA_name, or that of ~/.openmpi/mca-params.conf or
/// /etc/openmpi/openmpi-mca-params.conf.
std::optional<std::string> mca_setting(const Environment& environment, const std::string& name);

/// Seconds that a process has after a SIGTERM or SIGINT to mpirun, until it is killed.
double mpirun_kill_seconds(const Environment& environment);

/// Seconds after which mpirun notices that a host cannot be reached.
double mpirun_lost_host_seconds(const Environment& environment);

}  // namespace millrace::tools
