#include "tools/train/step_program.h"

#include <optional>
#include <span>

#include "io/base/error.h"
#include "tools/output_place.h"

namespace millrace::tools {
namespace {

void write_text(const std::string& text, const std::string& path, const io::Opener& opener) {
  const auto sink = open_output_file(opener, path, io::Replace::kAtomically);
  sink->write(std::as_bytes(std::span(text)));
  sink->finish();
}

}  // namespace

trainer::hlo::Program make_program(const StepProgramChoice& step) {
  if (step.optimisation.accumulate > 1)
    throw Error(ErrorCode::kUnsupported,
                "a step of several micro-batches (--accumulate) is no single program");
  const auto model = step.choice.build();
  const auto objective = step.choice.task.objective(step.choice.classes, step.mixup);
  trainer::TrainOptions options;
  step.optimisation.apply(options);
  return trainer::hlo::make_step_program(
      {.model = *model,
       .objective = *objective,
       .batch_size = step.batch_size,
       .precision = step.precision.compute(),
       .input_dtype = step.takes_bytes ? decode::DType::kUInt8 : step.precision.input(),
       .bytes = step.choice.images.of_bytes(),
       .replicas = step.replicas},
      {.optimizer = {.rule = options.optimizer.rule,
                     .round_to_bf16 = step.precision.rounds_weights()},
       .clip = options.clip,
       .ema_decay = options.ema_decay > 0 ? std::optional(options.ema_decay) : std::nullopt});
}

void write_program(const trainer::hlo::Program& program, const std::string& path,
                   const io::Opener& opener) {
  write_text(program.text, path, opener);
  write_text(trainer::hlo::program_json(program), path + ".json", opener);
}

std::vector<const Table*> StepOptions::tables() {
  std::vector<const Table*> tables = ModelOption::tables();
  tables.push_back(&trainer::standard_rules());
  return tables;
}

void StepOptions::declare(CLI::App& app) {
  model_.declare_model(app, choice_);
  model_.declare_task(app);
  optimisation_.declare_update(app);
  precision_.declare(app);
}

void StepOptions::settle() {
  model_.settle(choice_);
  choice_.check();
  choice_.settle();
  if (choice_.needs_classes()) choice_.classes = kUsualClasses;
  optimisation_.check_update();
}

StepProgramChoice StepOptions::program(std::int64_t batch_size, int replicas) const {
  return {.choice = choice_,
          .optimisation = optimisation_,
          .precision = precision_,
          .takes_bytes = true,
          .batch_size = batch_size,
          .replicas = replicas};
}

}  // namespace millrace::tools
