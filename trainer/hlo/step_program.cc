// A step of training as one module, or as two.
#include "io/base/error.h"
#include "trainer/hlo/detail/step_builder.h"
#include "trainer/hlo/program.h"

namespace millrace::trainer::hlo {

Program make_step_program(const ProgramSetup& setup, const StepProgramOptions& options) {
  StepBuilder step(setup, options, "step");
  step.take_state();
  step.take_batch();
  step.take_numbers();
  step.take_key();
  step.compute(step.num_valid());
  step.reduce();
  step.update();
  return step.finish_step();
}

Program make_gradient_program(const ProgramSetup& setup) {
  if (setup.objective.is_collective())
    throw Error(ErrorCode::kUnsupported,
                "a loss that compares the samples of all devices has no StableHLO for steps of "
                "several programs: no micro-batches, and no devices that compute apart");
  const StepProgramOptions options;
  StepBuilder step(setup, options, "gradients");
  step.take_weights();
  step.take_batch();
  step.take_key();
  step.take_accumulated();
  step.compute(step.divisor());
  step.accumulate();
  return step.finish_accumulation();
}

Program make_update_program(const ProgramSetup& setup, const StepProgramOptions& options) {
  StepBuilder step(setup, options, "update");
  step.take_state();
  step.take_numbers();
  step.take_sums();
  step.reduce();
  step.scale_sums();
  step.update();
  return step.finish_step();
}

}  // namespace millrace::trainer::hlo
