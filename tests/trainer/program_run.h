// ProgramRun: a StableHLO program, run by JAX's CPU compiler (run_program.py), step by step, beside
// the CPU's backend on the same batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pipeline/batch.h"
#include "tests/trainer/step_bench.h"
#include "trainer/hlo/program.h"

namespace millrace::testing {

/// Whether a Python with jaxlib is found (oracle_python()).
bool have_jax();

/// The values of one argument or result.
using ProgramData = std::vector<std::byte>;

template <typename T>
ProgramData program_data(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

/// A batch of the fields that the program's arguments name: inputs normal numbers, labels below
/// `classes`, values between 0 and 1; a function of `number`. Slots from `num_valid` on are masked.
pipeline::Batch program_batch(const trainer::hlo::Program& program, std::int64_t classes,
                              int number, std::int64_t num_valid);

/// What a program is given that is not of a batch, and replaces nothing, by the argument's name.
using ProgramNumbers = std::map<std::string, ProgramData>;

/// The batch's fields and `numbers`, for the arguments of `program` that are not donated. Without a
/// batch: zeros, and no valid slot.
std::vector<ProgramData> program_arguments(const trainer::hlo::Program& program,
                                           const pipeline::Batch* batch,
                                           const ProgramNumbers& numbers);

struct ProgramResults {
  /// By step, then by replica, then by result that replaces no argument, in order.
  std::vector<std::vector<std::vector<std::vector<float>>>> steps;
  /// By replica: what replaced donated arguments, in their order.
  std::vector<std::vector<std::vector<float>>> state;
};

/// `state`: by replica, then by donated argument. `steps`: by step, then by replica, then by other
/// argument. Expects that each donated argument's memory was taken over.
ProgramResults run_program(const trainer::hlo::Program& program,
                           const std::vector<std::vector<ProgramData>>& state,
                           const std::vector<std::vector<std::vector<ProgramData>>>& steps);

}  // namespace millrace::testing
