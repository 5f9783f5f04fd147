#include "trainer/detail/loop/fit_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "trainer/detail/loop/epoch_report.h"
#include "trainer/detail/loop/feed_pass.h"
#include "trainer/detail/loop/fit_start.h"
#include "trainer/detail/loop/start_filters.h"
#include "trainer/detail/store/checkpoint_folder.h"
#include "trainer/log_lines.h"
#include "trainer/meter.h"

namespace millrace::trainer::detail {

FitRun::FitRun(Processes& processes, const FitInput& input, const TrainOptions& options,
               const std::vector<Observer*>& observers)
    : stop_(options, processes),
      opener_(checkpoint_opener(options)),
      output_(processes, options, *opener_, observers),
      schedule_(make_schedule(options, input.model, input.train.batch_size(),
                              processes.cluster().topology().world_size())),
      steps_per_epoch_(settle_steps_per_epoch(processes, input.train, options, schedule_)),
      group_({.model = input.model,
              .evaluation_model = input.evaluation_model,
              .objective = input.objective,
              .devices = input.devices,
              .cluster = processes.cluster(),
              .backend = input.backend,
              .precision = options.precision,
              .trains = true,
              .trace = options.trace}),
      weights_(input.model, group_, options.optimizer),
      run_{.processes = processes,
           .input = input,
           .options = options,
           .stop = stop_,
           .output = output_,
           .group = group_,
           .weights = weights_},
      saves_(run_, *opener_),
      training_(run_, saves_, schedule_, steps_per_epoch_),
      evaluation_(run_) {
  schedule_.lr({.steps_per_epoch = steps_per_epoch_});
  input.train.plan_epochs(options.epochs);
  input.train.set_landing(group_.backend().landing(input.objective));
  if (input.start != nullptr) {
    input.start->plan_epochs(1);
    input.start->set_landing(group_.backend().landing(input.objective));
  }
  if (input.validation == nullptr) return;
  input.validation->plan_epochs(1);
  input.validation->set_landing(group_.backend().landing(input.objective));
}

void FitRun::start() {
  saves_.open();
  output_.open_rank_logs();
  weights_.copy_from_first(run_.processes);
  group_.make_steps(run_.options, weights_.states(), weights_.ema());
  if (run_.options.scale_lr) {
    const int world = saves_.state().world;
    run_.options.log.info(fmt::format("Learning rate {:g} x {} devices = {:g}",
                                      schedule_.base_lr() / world, world, schedule_.base_lr()));
  }
  saves_.begin();
}

void FitRun::take_start_values() {
  const std::int64_t slots = start_slots(run_.input.model);
  if (slots == 0 || !saves_.starts_from_data() || !stop_.stopped_by().empty()) return;
  Feed& input = run_.input.start != nullptr ? *run_.input.start : run_.input.train;
  const std::int64_t batch_size = input.batch_size();
  require(batch_size > 0, "whitening of samples before the first step needs the batches' size");
  std::vector<StartFilters> filters;
  for (int device = 0; device < group_.size(); ++device)
    filters.emplace_back(group_.replica(device), StartFilters::From::kSlots);
  const auto of = [&](const Replica& replica) -> StartFilters& {
    return filters[static_cast<std::size_t>(replica.device())];
  };
  const std::int64_t round = batch_size * saves_.state().world;
  auto feed = input.open(static_cast<std::uint32_t>(saves_.state().epoch), nullptr);
  const bool is_whole = run_pass(
      {.group = group_,
       .processes = run_.processes,
       .feed = *feed,
       .stop = stop_.token(),
       .max_batches = (slots + round - 1) / round},
      [&](Replica& replica, const pipeline::Batch* batch) {
        if (batch == nullptr) return;
        of(replica).add(*batch, slot_numbers(*batch, batch_size, group_.topology()));
      },
      [&](Replica& replica) { of(replica).write(); });
  feed.reset();
  if (run_.input.start != nullptr) run_.input.start->release();
  if (!is_whole) stop_.agree();
}

template <typename Work>
void FitRun::or_save(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    saves_.save_finished_steps(training_.totals(), error.where().url);
    throw;
  } catch (...) {
    saves_.save_finished_steps(training_.totals());
    throw;
  }
}

// A stop or a fault in an epoch's evaluation keeps the epoch's steps; a resumed run evaluates
// again. Weights whose outputs are not finite are nothing to keep.
bool FitRun::evaluate(EpochEvent& event) {
  bool whole = false;
  or_save([&] { whole = evaluation_.measure(event); });
  if (!whole) {
    saves_.save_in_epoch(training_.totals());
    return false;
  }
  evaluation_.check_finite(event);
  or_save([&] { output_.tell(&Observer::on_evaluation_end, event); });
  output_.say(evaluation_line(event, clock_time()));
  return true;
}

void FitRun::run_epoch(std::int64_t epoch) {
  epoch_begin_ = std::chrono::steady_clock::now();
  output_.tell(&Observer::on_epoch_start, epoch + 1);
  output_.say(epoch_begin_line(epoch + 1, clock_time()));
  EpochEvent event = training_.run(epoch);
  if (training_.was_stopped()) return saves_.save_in_epoch(training_.totals());
  output_.tell(&Observer::on_train_end, event);
  output_.say(epoch_end_line(event, clock_time()));
  if (run_.input.validation != nullptr && !evaluate(event)) return;
  end_epoch(event);
}

// The rows come before the checkpoints: a run that is killed between them repeats the epoch, whose
// rows are then replaced, but never the epochs that a checkpoint has.
void FitRun::end_epoch(EpochEvent& event) {
  event.is_best = saves_.is_best(event);
  event.compilations = gather_compilations(run_.processes, group_.take_compilations());
  event.seconds = seconds_since(epoch_begin_);
  or_save([&] { output_.tell(&Observer::on_epoch_end, event); });
  const auto saving = std::chrono::steady_clock::now();
  saves_.end_epoch(event, training_.totals().front());
  output_.tell(&Observer::on_saved,
               SavedEvent{.epoch = event.epoch, .seconds = seconds_since(saving)});
  output_.say(stall_line(event));
  result_.end.verdict = event.stall.verdict;
  result_.epochs.push_back(event);
}

void FitRun::finish() {
  SavedResult saved = saves_.finish();
  EndEvent& end = result_.end;
  end.epochs = saves_.state().epoch;
  end.stopped_by = stop_.stopped_by();
  end.interrupted = stop_.was_signal();
  end.monitor = saves_.state().monitor;
  end.best = saved.best;
  end.best_epoch = saved.best_epoch;
  end.seconds = seconds_since(begin_);
  end.mean_rate = training_.mean_rate();
  output_.tell(&Observer::on_fit_end, end);
  output_.finish();
  output_.say(end_line(end));
  warn_of_warmup();
  warn_of_no_best();
  result_.last_checkpoint = std::move(saved.last_path);
  result_.best_checkpoint = std::move(saved.best_path);
}

void FitRun::warn_of_warmup() const {
  const std::int64_t steps = schedule_.warmup_steps(steps_per_epoch_);
  const std::int64_t taken = saves_.state().global_step;
  if (!stop_.stopped_by().empty() || taken >= steps) return;
  run_.options.log.warn(fmt::format(
      "the run ended in its warm-up, after {} of {} steps: the learning rate never reached {:g}",
      taken, steps, schedule_.base_lr()));
}

void FitRun::warn_of_no_best() const {
  const TrainState& state = saves_.state();
  if (result_.epochs.empty() || result_.end.best) return;
  run_.options.log.warn("no epoch was the best: " + state.monitor + " was a number in none" +
                        (run_.options.run_folder.empty() ? "" : "; there is no checkpoint best"));
}

FitResult FitRun::run() {
  begin_ = std::chrono::steady_clock::now();
  try {
    run_in_place();
    finish();
  } catch (const std::exception& error) {
    record(error);
    throw;
  }
  return std::move(result_);
}

void FitRun::run_in_place() {
  try {
    run_epochs();
  } catch (const Error& error) {
    // If the folder was deleted or moved, report that instead.
    if (error.code() == ErrorCode::kIo || cannot_be_seen(error)) output_.check_in_place();
    throw;
  }
}

void FitRun::record(const std::exception& fault) const {
  FaultEvent event{
      .message = fault_text(fault),
      .epoch = std::min(saves_.state().epoch + 1, run_.options.epochs),
      .global_step = std::max(saves_.state().global_step, training_.totals().front().global_step),
      .seconds = seconds_since(begin_)};
  if (const auto* error = dynamic_cast<const Error*>(&fault))
    event.fault = error_code_name(error->code());
  output_.fail(event);
}

void FitRun::run_epochs() {
  start();
  output_.tell(&Observer::on_fit_start);
  evaluation_.check_sanity();
  take_start_values();
  while (saves_.state().epoch < run_.options.epochs && stop_.stopped_by().empty()) {
    run_epoch(saves_.state().epoch);
  }
}

}  // namespace millrace::trainer::detail
