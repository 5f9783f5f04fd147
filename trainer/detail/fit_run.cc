#include "trainer/detail/fit_run.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/base/error.h"
#include "trainer/detail/monitor.h"
#include "trainer/detail/replica_evaluate.h"
#include "trainer/detail/stall.h"
#include "trainer/log_lines.h"

namespace millrace::trainer::detail {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

void require(bool condition, const char* message) {
  if (!condition) throw Error(ErrorCode::kInvalidArgument, message);
}

std::string checkpoint_folder(const TrainOptions& options) {
  if (!options.checkpoint.folder.empty() || options.run_folder.empty()) {
    return options.checkpoint.folder;
  }
  return options.run_folder + "/checkpoints";
}

/// Sums (one a measure, then the samples) to means.
NamedValues means_of(const std::vector<std::string>& names, const std::vector<double>& sums) {
  NamedValues values;
  const double count = sums.back();
  for (std::size_t i = 0; i < names.size(); ++i) {
    values.emplace_back(names[i], count > 0.0 ? sums[i] / count : std::nan(""));
  }
  return values;
}

std::vector<double> sums_from_json(const std::string& meters) {
  if (meters.empty()) return {};
  return nlohmann::json::parse(meters).get<std::vector<double>>();
}

}  // namespace

FitRun::FitRun(const FitInput& input, const TrainOptions& options,
               const std::vector<Observer*>& observers)
    : input_(input),
      options_(options),
      observers_(observers),
      schedule_(options.schedule),
      optimizer_(options.optimizer, input.model.parameters()),
      steps_per_epoch_(options.steps_per_epoch > 0 ? options.steps_per_epoch
                                                   : input.train.steps_per_epoch()),
      monitor_(resolve_monitor(options.checkpoint.monitor, input.objective.measures(),
                               input.validation != nullptr)),
      checkpoint_folder_(checkpoint_folder(options)),
      group_({.model = input.model,
              .objective = input.objective,
              .devices = input.devices,
              .precision = options.precision,
              .trains = true,
              .reducer = options.reducer}) {
  require(options.epochs > 0, "a run needs at least one epoch");
  require(options.log_steps >= 0, "steps between log lines must not be negative");
  schedule_.lr({.steps_per_epoch = steps_per_epoch_});
}

template <typename Member, typename... Args>
void FitRun::tell(Member member, const Args&... args) {
  for (Observer* observer : observers_) (observer->*member)(args...);
}

CheckpointTensors FitRun::tensors() {
  const ParameterTable& table = input_.model.parameters();
  CheckpointTensors all;
  all.model.push_back({.table = &table, .values = group_.weights()});
  all.model.push_back({.table = &input_.model.state(), .values = group_.replica(0).state()});
  for (std::size_t i = 0; i < optimizer_.state_names().size(); ++i) {
    all.optimizer.push_back({.prefix = optimizer_.state_names()[i] + ".",
                             .table = &table,
                             .values = optimizer_.state(i)});
  }
  return all;
}

void FitRun::resume(const std::string& path) {
  const TrainState found = read_checkpoint_state(path);
  const std::string optimizer(optimizer_kind_name(options_.optimizer.kind));
  if (found.model == input_.model.name() && found.optimizer != optimizer) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "the checkpoint was trained with " + found.optimizer + ", the run asks for " + optimizer,
        {.url = path, .stage = "checkpoint"});
  }
  const TrainState fresh = state_;
  state_ = load_checkpoint(path, input_.model.name(), tensors());
  if (state_.world != fresh.world || state_.seed != fresh.seed) {
    options_.log.warn(
        "resumed with another seed or number of devices: the run will not be the "
        "same, bit for bit, as one without a break");
  }
  if (state_.monitor != fresh.monitor) state_.best.reset();
  state_.seed = fresh.seed;
  state_.world = fresh.world;
  state_.monitor = fresh.monitor;
  state_.options = fresh.options;
  options_.log.info("Resumed from " + path + " at epoch " + std::to_string(state_.epoch + 1) +
                    ", step " + std::to_string(state_.step_in_epoch));
}

void FitRun::start() {
  state_ = {.model = input_.model.name(),
            .seed = options_.seed,
            .world = group_.size(),
            .optimizer = std::string(optimizer_kind_name(options_.optimizer.kind)),
            .monitor = monitor_,
            .best = std::nullopt,
            .options = options_.config_json};
  input_.model.initialise(options_.seed, group_.weights(), group_.replica(0).state());
  std::string from = options_.resume;
  if (from == "auto") from = find_newest_checkpoint(checkpoint_folder_, options_.log);
  if (!from.empty()) resume(from);
  group_.spread_from_rank0();
  folder_.emplace(options_.run_folder, options_.config_json, group_.size());
  if (folder_->metrics() != nullptr) observers_.push_back(folder_->metrics());
}

std::vector<EpochTotals> FitRun::train(std::int64_t epoch, EpochFeed& feed) {
  const EpochContext context{
      .options = options_,
      .schedule = schedule_,
      .optimizer = optimizer_,
      .feed = feed,
      .weights = group_.weights(),
      .epoch = epoch,
      .first_step = state_.step_in_epoch,
      .global_step = state_.global_step,
      .steps_per_epoch = steps_per_epoch_,
      .first_sums = sums_from_json(state_.meters),
      .on_step = [this](const StepEvent& event) { tell(&Observer::on_step, event); },
      .on_log_step =
          [this](const StepEvent& event) {
            const std::string line = training_line(event, clock_time());
            folder_->line(event.rank, line);
            if (event.rank != 0) return;
            tell(&Observer::on_log_step, event);
            options_.log.info(line);
          }};
  std::vector<EpochTotals> totals(static_cast<std::size_t>(group_.size()));
  group_.run(feed, [&](Replica& replica) {
    const int rank = replica.rank();
    totals[static_cast<std::size_t>(rank)] =
        ReplicaEpoch(context, replica, input_.devices.name(rank)).run();
  });
  return totals;
}

EpochEvent FitRun::make_event(std::int64_t epoch, const std::vector<EpochTotals>& totals,
                              const EpochFeed& feed) const {
  const EpochTotals& first = totals.front();
  std::vector<StepTimes> times;
  std::int64_t samples = 0;
  for (const EpochTotals& one : totals) {
    times.push_back(one.times);
    samples += one.replica_samples;
  }
  EpochEvent event;
  event.epoch = epoch + 1;
  event.train = means_of(input_.objective.measures(), first.sums);
  event.train_samples = std::llround(first.sums.back());
  event.replica_train_samples = first.replica_samples;
  event.train_seconds = first.seconds;
  event.rate = first.seconds > 0.0 ? static_cast<double>(samples) / first.seconds : 0.0;
  event.stall = make_stall_report(times, first.steps - state_.step_in_epoch, feed.busiest_stage());
  return event;
}

void FitRun::evaluate(EpochEvent& event) {
  tell(&Observer::on_evaluation_start, event.epoch);
  const auto feed = input_.validation->open(0, nullptr);
  const EvaluationContext context{
      .feed = *feed, .stop = options_.stop, .on_step = [this](std::int64_t batches) {
        tell(&Observer::on_evaluation_step, batches);
      }};
  EvaluationSums sums;
  group_.run(*feed, [&](Replica& replica) {
    EvaluationSums own = evaluate_replica(context, replica);
    if (replica.rank() == 0) sums = std::move(own);
  });
  event.val = means_of(input_.objective.measures(), sums.all);
  event.replica_val = means_of(input_.objective.measures(), sums.replica);
  event.val_samples = std::llround(sums.all.back());
}

// The epoch's steps are kept when the stop comes in its evaluation: that is done again.
void FitRun::evaluate_or_stop(EpochEvent& event, const std::vector<EpochTotals>& totals) {
  try {
    evaluate(event);
  } catch (const Error&) {
    if (!options_.stop.stop_requested()) throw;
    stop_in_epoch(totals);
  }
}

bool FitRun::is_best(const EpochEvent& event) {
  const double value = monitored_value(monitor_, event);
  if (!std::isfinite(value)) return false;
  const bool better =
      !state_.best || (less_is_better(monitor_) ? value < *state_.best : value > *state_.best);
  if (better) {
    state_.best = value;
    state_.best_epoch = event.epoch;
  }
  return better;
}

void FitRun::save(const std::string& name) {
  if (checkpoint_folder_.empty()) return;
  save_checkpoint(checkpoint_folder_, name, state_, tensors());
  const std::string path = checkpoint_folder_ + "/" + name;
  (name == "best" ? result_.best_checkpoint : result_.last_checkpoint) = path;
  tell(&Observer::on_checkpoint, path);
}

void FitRun::stop_in_epoch(const std::vector<EpochTotals>& totals) {
  const EpochTotals& first = totals.front();
  // The last device's batch is the last one of the round.
  const auto& position = totals.back().position;
  state_.step_in_epoch = first.steps;
  state_.global_step = first.global_step;
  state_.meters = nlohmann::json(first.sums).dump();
  if (position != nullptr) state_.position = position->to_json();
  result_.end.interrupted = true;
  save("last");
}

void FitRun::run_epoch(std::int64_t epoch) {
  const auto start = SteadyClock::now();
  tell(&Observer::on_epoch_start, epoch + 1);
  options_.log.info(epoch_begin_line(epoch + 1, clock_time()));
  std::optional<pipeline::Position> position;
  if (!state_.position.empty()) position = pipeline::Position::from_json(state_.position);
  const auto feed =
      input_.train.open(static_cast<std::uint32_t>(epoch), position ? &*position : nullptr);
  const std::vector<EpochTotals> totals = train(epoch, *feed);
  EpochEvent event = make_event(epoch, totals, *feed);
  samples_ += event.rate * event.train_seconds;
  train_seconds_ += event.train_seconds;
  if (totals.front().skipped_steps > 0) {
    options_.log.warn("Epoch " + std::to_string(event.epoch) + ": " +
                      std::to_string(totals.front().skipped_steps) +
                      " steps skipped, their loss was not finite");
  }
  state_.batch_size = totals.front().batch_size;
  if (totals.front().stopped) return stop_in_epoch(totals);
  tell(&Observer::on_train_end, event);
  options_.log.info(epoch_end_line(event, clock_time()));
  if (input_.validation != nullptr) evaluate_or_stop(event, totals);
  if (result_.end.interrupted) return;
  state_.global_step = totals.front().global_step;
  event.seconds = seconds_since(start);
  end_epoch(event);
}

void FitRun::end_epoch(EpochEvent& event) {
  state_.epoch = event.epoch;
  state_.step_in_epoch = 0;
  state_.position.clear();
  state_.meters.clear();
  event.is_best = is_best(event);
  if (event.is_best && options_.checkpoint.save_best) save("best");
  if (options_.checkpoint.save_last) save("last");
  tell(&Observer::on_epoch_end, event);
  if (!event.val.empty()) options_.log.info(evaluation_line(event, clock_time()));
  options_.log.info(stall_line(event));
  result_.end.verdict = event.stall.verdict;
  result_.epochs.push_back(event);
}

void FitRun::finish() {
  EndEvent& end = result_.end;
  end.epochs = state_.epoch;
  end.monitor = monitor_;
  end.best = state_.best;
  end.best_epoch = state_.best_epoch;
  end.seconds = seconds_since(begin_);
  end.mean_rate = train_seconds_ > 0.0 ? samples_ / train_seconds_ : 0.0;
  tell(&Observer::on_fit_end, end);
  options_.log.info(end_line(end));
}

FitResult FitRun::run() {
  begin_ = SteadyClock::now();
  start();
  tell(&Observer::on_fit_start);
  while (state_.epoch < options_.epochs && !result_.end.interrupted) run_epoch(state_.epoch);
  finish();
  return std::move(result_);
}

}  // namespace millrace::trainer::detail
