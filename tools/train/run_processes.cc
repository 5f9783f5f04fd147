#include "tools/train/run_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "io/base/cores.h"
#include "io/base/error.h"
#ifdef MILLRACE_HAS_MPI
#include "trainer/mpi/mpi_processes.h"
#endif

namespace millrace::tools {

#ifdef MILLRACE_HAS_MPI

class RunProcesses::Started {
 public:
  explicit Started(const LaunchedProcesses& launched) {
    if (processes_.processes() == launched.count) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}={}, but MPI finds {}: start with mpirun, or srun --mpi=pmix",
                            launched.variable, launched.count, processes_.processes()));
  }
  std::unique_ptr<trainer::Cluster> make_cluster(int devices) {
    return trainer::make_cluster(processes_.topology(devices), processes_.transport());
  }

 private:
  trainer::MpiProcesses processes_;
};

#else

class RunProcesses::Started {
 public:
  explicit Started(const LaunchedProcesses& launched) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}={}: this program was built without MPI, and each process would do "
                            "the whole work; start one process, with --devices for what the "
                            "machine has",
                            launched.variable, launched.count));
  }
  std::unique_ptr<trainer::Cluster> make_cluster(int /*devices*/) { return nullptr; }
};

#endif

RunProcesses::RunProcesses(RunOptions& run) {
  join(static_cast<int>(device::DeviceSet::parse(run.devices).size()), process_environment());
  run.topology = cluster_->topology();
  devices_ = device::DeviceSet::parse(run.devices, {.num_cores = num_cores()});
}

void RunProcesses::join(int devices, const Environment& environment) {
  if (const auto launched = launched_processes(environment)) {
    started_ = std::make_unique<Started>(*launched);
    cluster_ = started_->make_cluster(devices);
  } else {
    refuse_launcher(environment);
    cluster_ = trainer::make_local_cluster(devices);
  }
}

RunProcesses::~RunProcesses() = default;

int RunProcesses::num_cores() const {
  const int usable = usable_cores();
  const bool is_bound = usable < static_cast<int>(std::thread::hardware_concurrency());
  return is_bound ? usable : std::max(1, usable / cluster_->topology().node_processes);
}

}  // namespace millrace::tools
