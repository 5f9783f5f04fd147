#include "tools/launcher.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "io/base/error.h"
#include "tools/parse.h"

namespace millrace::tools {
namespace {

/// A variable, and its highest value for a single process.
struct Variable {
  const char* name;
  std::int64_t alone;
};

// Numbers of processes. SLURM_NTASKS is not among them: a batch script has it too, whatever it
// starts.
constexpr std::array kMpiCounts{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                "SLURM_STEP_NUM_TASKS"};
/// The numbers of a process, of the same launchers.
constexpr std::array kMpiRanks{"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
                               "SLURM_PROCID"};
constexpr std::array<Variable, 7> kVariables{{{"WORLD_SIZE", 1},
                                              {"RANK", 0},
                                              {kMpiCounts[0], 1},
                                              {kMpiCounts[1], 1},
                                              {"PMI_RANK", 0},
                                              {kMpiCounts[2], 1},
                                              {kMpiCounts[3], 1}}};

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::optional<LaunchedProcesses> launched_processes(const Environment& environment) {
  for (std::size_t i = 0; i < kMpiCounts.size(); ++i) {
    const auto value = environment(kMpiCounts[i]);
    const std::int64_t count = value ? number_or_zero(*value) : 0;
    if (count < 1) continue;
    return LaunchedProcesses{.variable = kMpiCounts[i],
                             .count = count,
                             .process = number_or_zero(environment(kMpiRanks[i]).value_or(""))};
  }
  return {};
}

void refuse_launcher(const Environment& environment) {
  for (const Variable& variable : kVariables) {
    const auto value = environment(variable.name);
    if (!value || number_or_zero(*value) <= variable.alone) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}={}: this is one of several processes, and each would do the whole "
                            "work; start one process, with --devices for what the machine has",
                            variable.name, *value));
  }
}

}  // namespace millrace::tools
