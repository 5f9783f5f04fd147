// launcher: detects whether this process is one of several that a launcher started.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace millrace::tools {

/// Looks up an environment variable.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The process's own.
Environment process_environment();

/// What a launcher reports about the processes that it started.
struct LaunchedProcesses {
  std::string variable;
  std::int64_t count = 1;
  std::int64_t process = 0;  ///< this one's number
};

/// Of Open MPI, MPICH or a Slurm step; nothing without a launcher. The innermost counts: mpirun may
/// run in a step of Slurm's.
std::optional<LaunchedProcesses> launched_processes(const Environment& environment);

/// For what only one process can do: several would each do the whole work, and write to the same
/// place. Throws: InvalidArgument when the environment of torchrun, Open MPI, MPICH or a Slurm step
/// says that there are several, naming the variable and its value.
void refuse_launcher(const Environment& environment = process_environment());

}  // namespace millrace::tools
