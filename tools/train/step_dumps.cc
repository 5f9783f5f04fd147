#include "tools/train/step_dumps.h"

#include <fmt/format.h>

#include <CLI/App.hpp>

#include "device/device.h"
#include "io/base/error.h"
#include "tools/help.h"
#include "tools/option_settings.h"
#include "tools/parse.h"
#include "tools/progress.h"
#include "tools/train/model_summary.h"
#include "tools/train/plan_table.h"
#include "tools/train/run_classes.h"
#include "tools/train/step_program.h"
#include "trainer/hlo/program.h"
#include "trainer/plan_profile.h"

namespace millrace::tools {
namespace {

void take_usual_classes(ModelChoice& choice, const Log& log) {
  if (!choice.needs_classes()) return;
  choice.classes = kUsualClasses;
  log.info(fmt::format("{} outputs, as --classes was not given", kUsualClasses));
}

void find_classes(TrainCommandOptions& options, const CommandContext& context) {
  if (options.has_data() && options.choice.needs_classes())
    options.choice.classes = RunClasses(options).count(context);
  take_usual_classes(options.choice, context.log);
}

void print_summary(TrainCommandOptions& options, CommandContext& context) {
  options.run.settle({.devices = options.run.device_choice().count()});
  take_usual_classes(options.choice, context.log);
  print_model_summary(*options.choice.build(),
                      {.batch_size = options.run.batch_size,
                       .precision = options.run.precision.compute(),
                       .json = context.json},
                      context.out);
}

trainer::PlanProfile profile_step(const trainer::Model& model, const TrainCommandOptions& options,
                                  const CommandContext& context) {
  const auto devices = device::DeviceSet::parse(options.run.device_choice().cores);
  trainer::PlanProfile profile;
  devices[0].run([&] {
    profile = trainer::profile_plan(
        model,
        {.batch_size = options.run.batch_size,
         .precision = options.run.precision.compute(),
         .input_dtype = options.run.precision.input()},
        {.max_steps = options.limits.train_batches, .seed = options.seed, .stop = context.stop});
  });
  return profile;
}

void print_step_plan(TrainCommandOptions& options, CommandContext& context) {
  const DeviceChoice devices = options.run.device_choice();
  require(devices.is_cores(),
          "--dump-plan shows a plan for the CPU: --dump-program has a step "
          "for other devices");
  options.run.settle({.devices = devices.count()});
  find_classes(options, context);
  const auto model = options.choice.build();
  show_status(context.terminal, "compiling the model, timing its steps");
  print_plan(profile_step(*model, options, context),
             {.model = model->name(),
              .batch_size = options.run.batch_size,
              .precision = options.run.precision.word,
              .json = context.json},
             context.out);
}

trainer::hlo::Program step_program(const TrainCommandOptions& options, int devices) {
  return make_program({.choice = options.choice,
                       .optimisation = options.optimisation,
                       .mixup = options.data.mixup,
                       .precision = options.run.precision,
                       .takes_bytes = options.run.device_choice().takes_bytes(),
                       .batch_size = options.run.batch_size,
                       .replicas = devices});
}

}  // namespace

void StepDumps::declare(CLI::App& app) {
  app.option_defaults()->group("Options");
  app.add_flag("--summary", summary,
               "Print the model's layers, shapes, parameters, multiply-adds and memory, and "
               "exit; needs no data")
      ->check(in_short_help())
      ->check(of_this_start());
  app.add_flag("--dump-plan", plan,
               "Time a training step of one device on random inputs, print what it does in each "
               "layer (layout, kernel, FLOPs, bytes, time, share of the processor's limit), and "
               "exit; --limit-train-batches N times N steps; without --classes SPEC is read, or "
               "1000 are taken")
      ->check(of_this_start());
  app.add_option("--dump-program", program,
                 "Write a training step of one of the devices as a StableHLO module, which XLA "
                 "compiles for TPU, GPU and CPU, to this file, its arguments and results to "
                 "FILE.json, and exit; without --classes SPEC is read, or 1000 are taken")
      ->type_name("FILE")
      ->check(of_this_start());
}

void StepDumps::check() const {
  const int asked = (summary ? 1 : 0) + (plan ? 1 : 0) + (program.empty() ? 0 : 1);
  require(asked < 2, "--summary, --dump-plan and --dump-program: one of them");
}

void StepDumps::print(TrainCommandOptions& options, CommandContext& context) const {
  if (summary) return print_summary(options, context);
  options.read.network.attach(context);
  if (plan) return print_step_plan(options, context);
  write_step(options, context);
}

void StepDumps::write_step(TrainCommandOptions& options, const CommandContext& context) const {
  if (options.optimisation.accumulate > 1)
    throw Error(ErrorCode::kUnsupported,
                "--dump-program: a step of several micro-batches (--accumulate) has no StableHLO");
  const int devices = options.run.device_choice().count();
  options.run.settle({.devices = devices});
  find_classes(options, context);
  const auto step = step_program(options, devices);
  write_program(step, program, *options.read.network.opener());
  context.log.info(fmt::format(
      "{}: a step of {} samples of {}, {}, replica of {}; {}.json has its {} arguments and {} "
      "results",
      program, options.run.batch_size, options.choice.name(), options.run.precision.word, devices,
      program, step.arguments.size(), step.results.size()));
}

}  // namespace millrace::tools
