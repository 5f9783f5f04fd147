// A training step as a StableHLO program: made from options alone, and in files.
//
//   StepOptions step;                                   // of a command that has no run
//   step.declare(app); ...; step.settle();
//   write_program(make_program(step.program(8)), "step.mlir", opener);
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/opener.h"
#include "pipeline/mixup.h"
#include "tools/train/model_option.h"
#include "tools/train/optimisation_options.h"
#include "tools/train/precision_option.h"
#include "trainer/hlo/program.h"

namespace millrace::tools {

/// Borrowed, and settled; the number of classes is known.
struct StepProgramChoice {
  const ModelChoice& choice;
  const OptimisationOptions& optimisation;
  pipeline::MixUpOptions mixup = {};
  PrecisionOption precision = {};
  bool takes_bytes = false;     ///< images come as bytes
  std::int64_t batch_size = 1;  ///< of each replica
  int replicas = 1;
};

/// Throws: Unsupported, by name, for what has no StableHLO, as several micro-batches.
trainer::hlo::Program make_program(const StepProgramChoice& step);

/// Writes the module to `path` and its arguments and results to `path`.json, each complete or not
/// at all; files of these names are replaced. Throws: as open_output_file(); Io.
void write_program(const trainer::hlo::Program& program, const std::string& path,
                   const io::Opener& opener);

/// What a step is made of: model, task, rule, precision.
class StepOptions {
 public:
  /// `usual` is the model unless another is given.
  explicit StepOptions(const trainer::ArchitectureChoice& usual) : model_(usual) {}

  static std::vector<const Table*> tables();
  void declare(CLI::App& app);
  /// Throws: InvalidArgument for what contradicts itself.
  void settle();
  /// Requires: settle().
  const ModelChoice& choice() const { return choice_; }
  StepProgramChoice program(std::int64_t batch_size, int replicas) const;

 private:
  ModelOption model_;
  ModelChoice choice_;
  OptimisationOptions optimisation_;
  PrecisionOption precision_;
};

}  // namespace millrace::tools
