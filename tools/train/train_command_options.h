// TrainCommandOptions: what the command line of `train` says, an option group each, and what of it
// is found out when the run starts (tools/train/settle_run.h).
//
//   TrainCommandOptions options;
//   options.declare(app);
//   options.check_model();      // once the words are parsed
//   options.check_run();        // not of what ends without a run
//
// The parts of a run borrow it: input, header, observers.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/metrics_watch.h"
#include "tools/read_options.h"
#include "tools/run_processes.h"
#include "tools/trace_options.h"
#include "tools/train/data_options.h"
#include "tools/train/limit_options.h"
#include "tools/train/model_option.h"
#include "tools/train/optimisation_options.h"
#include "tools/train/run_folder_options.h"
#include "tools/train/run_options.h"
#include "tools/train/view_objective.h"
#include "trainer/train_options.h"

namespace millrace::tools {

struct TrainCommandOptions {
  CLI::App* app = nullptr;  ///< that they were declared in
  DataOptions data;
  ReadOptions read;
  ModelOption model;
  ModelChoice choice;
  OptimisationOptions optimisation;
  RunOptions run;
  RunFolderOptions run_folder;
  LimitOptions limits;
  TraceFileOptions trace;
  MetricsOptions metrics;
  std::string allreduce = "tree";
  EvaluationViews views = EvaluationViews::kOne;
  std::int64_t heartbeat_timeout = kHeartbeatTimeout;
  std::uint64_t seed = 0;
  std::int64_t log_steps = 20;
  std::string log_style = "plain";
  /// Of the run that is resumed.
  SavedStreams saved;

  static std::vector<const Table*> tables();
  void declare(CLI::App& to);
  /// What a model has without a run, too. Throws: InvalidArgument.
  void check_model();
  /// Throws: InvalidArgument for options that contradict each other; as expanding the specs does.
  void check_run();
  /// Throws: InvalidArgument for a model that --val-size cannot have.
  void check_val_size() const;

  /// Whether the command line or --config has this option: "--fit".
  bool is_given(const std::string& option) const;
  bool has_data() const { return data.fake > 0 || !data.train.empty(); }
  bool has_validation() const { return limits.overfit_batches > 0 || !data.val_specs().empty(); }
  /// Whether this process writes into a run folder.
  bool writes_folder() const { return run.topology.process == 0 && !run_folder.run_dir.empty(); }
  /// The shards to train on; none for fake data.
  std::vector<std::string> train_shards() const;
  /// The lists that complete them.
  std::vector<std::vector<std::string>> train_joins() const;
  /// Of all replicas.
  std::int64_t samples_per_step() const;

  ProcessOptions process_options() const;
  /// Requires: settle_run() and settle_steps().
  trainer::TrainOptions fit_options(const CommandContext& context) const;

 private:
  void declare_processes();
  void declare_log();
  void check_contrast() const;
  void check_evaluation() const;
  void check_streams() const;
  std::string config_json() const;
};

}  // namespace millrace::tools
