// launcher: detects whether this process is one of several that a launcher started.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace millrace::tools {

/// Looks up an environment variable.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Training, evaluation and prediction run in one process: several would each do all the work and
/// write to the same place. Throws: InvalidArgument if the environment of torchrun, Open MPI, MPICH
/// or a Slurm step shows several processes, naming the variable and its value.
void refuse_launcher(const Environment& environment);
/// The same with the process's environment.
void refuse_launcher();

}  // namespace millrace::tools
