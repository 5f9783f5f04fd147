#include "tools/train/run_observers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/process_facts.h"
#include "io/opener.h"
#include "tools/launcher.h"
#include "tools/mpirun_settings.h"
#include "tools/train/checkpoint_upload.h"
#include "tools/train/evaluation_files.h"
#include "tools/train/json_observer.h"
#include "tools/train/run_page.h"
#include "tools/train/stop_advice.h"
#include "trainer/progress_bar.h"
#include "trainer/xla_lines.h"

namespace millrace::tools {
namespace {

double kill_seconds(const RunProcesses& processes) {
  const Environment environment = process_environment();
  return is_of_mpirun(environment) && !processes.is_alone() ? mpirun_kill_seconds(environment) : 0;
}

trainer::XlaLinesOptions xla_lines(const ObservedRun& run, const io::Opener& opener) {
  trainer::XlaLinesOptions options{.log = run.context.log,
                                   .topology = run.options.run.topology,
                                   .epochs = run.options.optimisation.epochs,
                                   .folder = run.options.run_folder.run_dir,
                                   .opener = &opener};
  for (int device = 0; device < run.fit.devices.size(); ++device)
    options.devices.push_back(run.fit.devices.name(device));
  return options;
}

/// What a run is that its page tells of.
RunPageOptions page_options(const ObservedRun& run) {
  const TrainCommandOptions& options = run.options;
  if (run.files == nullptr) return {};
  const auto trained = options.data.fake > 0 ? std::vector<std::string>() : options.data.train;
  const trainer::Model& model = run.fit.model;
  return {.files = run.files,
          .log = run.context.log,
          .start = describe_start(
              {.words = command_words(),
               .topology = options.run.topology,
               .model = model.name(),
               .parameters = static_cast<std::int64_t>(model.parameters().num_values())},
              {{"train", trained, &run.fit.train, run.input.train_samples()},
               {"val", options.data.val_specs(), run.fit.validation, run.input.val_samples()}})};
}

DetailNames evaluation_names(const ObservedRun& run) {
  if (run.files == nullptr) return {};
  const ModelChoice& choice = run.options.choice;
  return detail_names(choice.task, choice.classes, run.classes.names(),
                      run.input.validation_shards());
}

trainer::WatchedRun watched_run(const ObservedRun& run) {
  return {.train = [&run] { return run.input.train_state(); },
          .validation = [&run] { return run.input.validation_state(); },
          .network = [&run] { return run.options.read.network.state(); },
          .topology = run.options.run.topology,
          .epochs = run.options.optimisation.epochs};
}

/// All that observe a run, in the order in which they are told.
class RunObservers {
 public:
  explicit RunObservers(const ObservedRun& run)
      : run_(run),
        opener_(run.options.read.network.opener()),
        bar_(run.processes.terminal_of(run.context)),
        json_(run.context.out),
        upload_(run.options.run_folder.upload, run.options.read.network.http(), run.context.stop,
                run.context.log, run.processes.terminal_of(run.context)),
        xla_(xla_lines(run, *opener_)),
        advice_(kill_seconds(run.processes), run.context.log),
        page_(page_options(run)),
        evaluations_(run.objective, run.files, evaluation_names(run)) {
    bar_.expect_epochs(run.options.optimisation.epochs);
    bar_.expect_evaluation(run.fit.validation == nullptr ? 0
                                                         : run.fit.validation->steps_per_epoch());
    trainer::all_do(*run.fit.cluster, [&] {
      if (uploads() && run.processes.is_first()) upload_.begin();
    });
  }

  /// The page is drawn of a run that fails, too.
  trainer::FitResult fit() {
    try {
      auto result = trainer::fit(run_.fit, run_.options.fit_options(run_.context), observers());
      page_.keep_memory(peak_memory_of_all(*run_.fit.cluster));
      finish_page();
      return result;
    } catch (...) {
      finish_page();
      throw;
    }
  }

  void check_uploaded() const {
    if (upload_.missing().empty()) return;
    throw Error(ErrorCode::kIo, fmt::format("not uploaded: {}", fmt::join(upload_.missing(), ", ")),
                {.url = run_.options.run_folder.upload});
  }

 private:
  void finish_page() const {
    page_.draw();
    if (run_.files != nullptr) run_.files->finish();
  }
  bool uploads() const { return !run_.options.run_folder.upload.empty(); }

  std::vector<trainer::Observer*> observers() {
    std::vector<trainer::Observer*> all = {&bar_, &run_.first_batch, &advice_};
    if (run_.options.log_style == "xla") all.push_back(&xla_);
    if (run_.context.json) all.push_back(&json_);
    if (uploads()) all.push_back(&upload_);
    all.push_back(&page_);
    all.push_back(&evaluations_);
    if (run_.watch != nullptr) all.push_back(&run_.watch->metrics());
    return all;
  }

  const ObservedRun& run_;
  std::shared_ptr<const io::Opener> opener_;
  trainer::ProgressBar bar_;
  JsonObserver json_;
  CheckpointUpload upload_;
  trainer::XlaLines xla_;
  StopAdvice advice_;
  RunPage page_;
  EvaluationFiles evaluations_;
};

/// While they exist, the line of the first batch and the page of metrics know what is read.
class WatchedInput {
 public:
  explicit WatchedInput(const ObservedRun& run)
      : line_(run.first_batch, [&run] { return run.input.train_state(); }) {
    if (run.watch != nullptr) metrics_.emplace(run.watch->metrics(), watched_run(run));
  }

 private:
  const FirstBatchLine::Watched line_;
  std::optional<trainer::PrometheusMetrics::Watched> metrics_;
};

void say_signal(const CommandContext& context) {
  if (context.signals != nullptr && context.signals->signal() != 0)
    context.log.info("a signal: the run ends after the step in flight, and says what it has saved");
}

void say_stopped(const trainer::FitResult& result, const Log& log) {
  if (result.end.stopped_by.empty()) return;
  log.info(result.last_checkpoint.empty()
               ? "nothing is saved: the run has no folder (--run-dir)"
               : io::printable_url(result.last_checkpoint) + "; --resume auto continues from it");
}

}  // namespace

trainer::FitResult fit_observed(const ObservedRun& run) {
  const CommandContext& context = run.context;
  RunObservers observers(run);
  const std::stop_callback told(context.stop, [&context] { say_signal(context); });
  const WatchedInput watched(run);
  auto result = observers.fit();
  if (context.trace != nullptr && !result.epochs.empty())
    run.options.trace.warn_if_not_reached(result.epochs.back().global_step, context.log);
  say_stopped(result, context.log);
  run.fit.cluster->fail_alike();  // from here on: the result is every process's
  if (result.end.interrupted) throw Error(ErrorCode::kCancelled, "training was stopped");
  observers.check_uploaded();
  return result;
}

}  // namespace millrace::tools
