// StepDumps: what `train` shows of a model and its training step instead of a run: --summary,
// --dump-plan and --dump-program.
//
// Threads: one at a time.
#pragma once

#include <string>

#include "tools/command.h"
#include "tools/train/train_command_options.h"

namespace millrace::tools {

struct StepDumps {
  bool summary = false;
  bool plan = false;
  std::string program = {};  ///< a file; empty: none

  void declare(CLI::App& app);
  /// Throws: InvalidArgument for more than one of them.
  void check() const;
  bool any() const { return summary || plan || !program.empty(); }
  /// Whether the options of the data are not looked at: there is no data to find classes in.
  bool needs_no_data(const TrainCommandOptions& options) const {
    return summary || (any() && !options.has_data());
  }
  /// Prints or writes the one that was asked for. Requires: any(). Throws: InvalidArgument,
  /// Unsupported, and as counting classes.
  void print(TrainCommandOptions& options, CommandContext& context) const;

 private:
  void write_step(TrainCommandOptions& options, const CommandContext& context) const;
};

}  // namespace millrace::tools
