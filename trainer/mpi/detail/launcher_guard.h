// The launcher's end, after the run's: Open MPI's mpirun, told to end the run, waits for its daemon
// on every host, and for as long as TCP repeats itself (a quarter of an hour) where a host cannot
// be reached. Its daemons elsewhere end when it has ended.
//
// Threads: any.
#pragma once

#include <chrono>

namespace millrace::trainer::detail {

/// If this process's parent is mpirun: leaves a process behind that ends it if it is still there
/// after `patience`, and ends itself as soon as it has ended.
void guard_launcher(std::chrono::seconds patience);

}  // namespace millrace::trainer::detail
