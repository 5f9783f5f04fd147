// A run of the processes that mpirun started; here of one, without mpirun.
#include <cstdio>

#include "millrace/trainer/cluster.h"
#include "millrace/trainer/mpi/mpi_processes.h"

namespace mr = millrace;

int main() {
  mr::trainer::MpiProcesses processes;
  const auto cluster = mr::trainer::make_cluster(processes.topology(1), processes.transport());
  const std::string decided = mr::trainer::decide(*cluster, [] { return std::string("continue"); });
  std::printf("process %d of %d on %s: %s\n", processes.process(), processes.processes(),
              processes.host().c_str(), decided.c_str());
  return decided == "continue" ? 0 : 1;
}
