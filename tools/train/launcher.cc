#include "tools/train/launcher.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "io/base/error.h"

namespace millrace::tools {
namespace {

/// A variable, and its highest value for a single process.
struct Variable {
  const char* name;
  std::int64_t alone;
};

// SLURM_NTASKS is not among them: it is also set in a batch script, whatever that starts.
constexpr std::array<Variable, 7> kVariables{{{"WORLD_SIZE", 1},
                                              {"RANK", 0},
                                              {"OMPI_COMM_WORLD_SIZE", 1},
                                              {"PMI_SIZE", 1},
                                              {"PMI_RANK", 0},
                                              {"SLURM_STEP_NUM_TASKS", 1},
                                              {"MV2_COMM_WORLD_SIZE", 1}}};

std::int64_t number_in(const std::string& text) {
  std::int64_t value = 0;
  const auto end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end ? value : 0;
}

}  // namespace

void refuse_launcher(const Environment& environment) {
  for (const Variable& variable : kVariables) {
    const auto value = environment(variable.name);
    if (!value || number_in(*value) <= variable.alone) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}={}: this is one of several processes, and each would do the whole "
                            "work; start one process, with --devices for what the machine has",
                            variable.name, *value));
  }
}

void refuse_launcher() {
  refuse_launcher([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace millrace::tools
