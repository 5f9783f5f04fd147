#include "trainer/detail/fit_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/base/error.h"
#include "trainer/detail/monitor.h"
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

/// The objective's sums, then the number of samples, to its measures.
NamedValues values_of(const Objective& objective, const std::vector<double>& sums,
                      std::span<const float> records = {}) {
  return objective.finish(
      {.sums = std::span(sums).first(sums.size() - 1), .samples = sums.back(), .records = records});
}

ScheduleOptions scaled(const TrainOptions& options, int world) {
  ScheduleOptions schedule = options.schedule;
  if (options.scale_lr) schedule.base_lr *= world;
  return schedule;
}

void check(const TrainOptions& options) {
  require(options.epochs > 0, "a run needs at least one epoch");
  require(options.log_steps >= 0, "steps between log lines must not be negative");
  require(options.accumulate > 0, "a step takes at least one batch");
  require(options.clip.norm >= 0.0 && options.clip.value >= 0.0F,
          "bounds of gradients must not be negative");
  require(options.ema_decay >= 0.0 && options.ema_decay < 1.0,
          "the decay of the weights' mean must lie in [0, 1)");
  require(options.init.empty() || options.resume.empty() || options.resume == "auto",
          "a run either starts from weights or goes on from a checkpoint");
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
      schedule_(scaled(options, input.devices.size())),
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
              .reducer = options.reducer}),
      totals_(static_cast<std::size_t>(group_.size())),
      compilations_(static_cast<std::size_t>(group_.size())) {
  check(options);
  // A step takes several batches: what the feed counts are batches.
  if (options.steps_per_epoch <= 0) {
    steps_per_epoch_ = (steps_per_epoch_ + options.accumulate - 1) / options.accumulate;
  }
  shown_steps_ = steps_per_epoch_;
  schedule_.lr({.steps_per_epoch = steps_per_epoch_});
}

template <typename Member, typename... Args>
void FitRun::tell(Member member, const Args&... args) {
  for (Observer* observer : observers_) (observer->*member)(args...);
}

CheckpointTensors FitRun::tensors() {
  const ParameterTable& table = input_.model.parameters();
  const FlatTensors state{.table = &input_.model.state(), .values = group_.replica(0).state()};
  CheckpointTensors all;
  all.model = {{.table = &table, .values = group_.weights()}, state};
  if (!ema_.empty()) all.ema = {{.table = &table, .values = ema_}, state};
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
        "resumed with another seed or number of devices: the run will not be the same, bit for "
        "bit, as one without a break");
  }
  if (state_.monitor != fresh.monitor) {
    state_.best.reset();
    state_.top.clear();
  }
  state_.seed = fresh.seed;
  state_.world = fresh.world;
  state_.monitor = fresh.monitor;
  state_.options = fresh.options;
  options_.log.info("Resumed from " + path + " at epoch " + std::to_string(state_.epoch + 1) +
                    ", step " + std::to_string(state_.step_in_epoch));
}

void FitRun::initialise() {
  input_.model.initialise(options_.seed, group_.weights(), group_.replica(0).state());
  if (!options_.init.empty()) {
    const auto kept =
        load_weights(options_.init, tensors().model, {.replace_head = options_.replace_head});
    for (const std::string& name : kept) options_.log.info(name + " keeps its start values");
  }
  if (options_.ema_decay > 0.0) ema_.assign(group_.weights().begin(), group_.weights().end());
}

void FitRun::start() {
  state_ = {.model = input_.model.name(),
            .seed = options_.seed,
            .world = group_.size(),
            .optimizer = std::string(optimizer_kind_name(options_.optimizer.kind)),
            .monitor = monitor_,
            .options = options_.config_json};
  initialise();
  std::string from = options_.resume;
  if (from == "auto") from = find_newest_checkpoint(checkpoint_folder_, options_.log);
  if (!from.empty()) resume(from);
  group_.spread_from_rank0();
  folder_.emplace(options_.run_folder, options_.config_json, group_.size());
  for (Observer* observer : folder_->observers()) observers_.push_back(observer);
  if (options_.scale_lr) {
    options_.log.info(fmt::format("Learning rate {:g} x {} devices = {:g}",
                                  options_.schedule.base_lr, group_.size(),
                                  schedule_.options().base_lr));
  }
}

bool FitRun::stop_due() {
  if (options_.stop.stop_requested()) result_.end.stopped_by = "signal";
  const bool late =
      options_.max_time.count() > 0 && SteadyClock::now() - begin_ > options_.max_time;
  if (late && result_.end.stopped_by.empty()) result_.end.stopped_by = "max-time";
  return !result_.end.stopped_by.empty();
}

bool FitRun::checkpoint_due() {
  const auto every = options_.checkpoint.every;
  if (every.count() == 0 || SteadyClock::now() - last_save_ < every) return false;
  last_save_ = SteadyClock::now();
  return true;
}

void FitRun::log_step(const StepEvent& event) {
  const std::string line = training_line(event, clock_time());
  folder_->line(event.rank, line);
  if (event.rank != 0) return;
  tell(&Observer::on_log_step, event);
  options_.log.info(line);
}

EpochContext FitRun::context_for(std::int64_t epoch, EpochFeed& feed) {
  return {.options = options_,
          .schedule = schedule_,
          .optimizer = optimizer_,
          .feed = feed,
          .weights = group_.weights(),
          .ema = ema_,
          .epoch = epoch,
          .first_step = state_.step_in_epoch,
          .global_step = state_.global_step,
          .steps_per_epoch = steps_per_epoch_,
          .shown_steps = shown_steps_,
          .first_sums = sums_from_json(state_.meters),
          .totals = totals_,
          .stop_due = [this] { return stop_due(); },
          .checkpoint_due = [this] { return checkpoint_due(); },
          .checkpoint = [this] { save_in_epoch(); },
          .on_step = [this](const StepEvent& event) { tell(&Observer::on_step, event); },
          .on_log_step = [this](const StepEvent& event) { log_step(event); }};
}

void FitRun::train(std::int64_t epoch, EpochFeed& feed) {
  const EpochContext context = context_for(epoch, feed);
  group_.run(feed, [&](Replica& replica) {
    ReplicaEpoch(context, replica, input_.devices.name(replica.rank())).run();
  });
}

EpochEvent FitRun::make_event(std::int64_t epoch, std::int64_t first_step, const EpochFeed& feed) {
  const EpochTotals& first = totals_.front();
  std::vector<StepTimes> times;
  std::int64_t samples = 0;
  for (const EpochTotals& one : totals_) {
    times.push_back(one.times);
    samples += one.replica_samples;
  }
  EpochEvent event;
  event.epoch = epoch + 1;
  event.train = values_of(input_.objective, first.sums);
  event.train_samples = std::llround(first.sums.back());
  event.replica_train_samples = first.replica_samples;
  event.train_seconds = first.seconds;
  event.rate = first.seconds > 0.0 ? static_cast<double>(samples) / first.seconds : 0.0;
  event.stall = make_stall_report(times, first.steps - first_step, feed.busiest_stage());
  samples_ += static_cast<double>(samples);
  train_seconds_ += event.train_seconds;
  return event;
}

void FitRun::take_compilations(EpochEvent& event) {
  for (int rank = 0; rank < group_.size(); ++rank) {
    const auto& all = group_.replica(rank).compilations();
    std::size_t& told = compilations_[static_cast<std::size_t>(rank)];
    for (; told < all.size(); ++told) {
      event.compilations.push_back({.rank = rank,
                                    .shape = all[told].shape,
                                    .seconds = all[told].seconds.count(),
                                    .activation_bytes = all[told].activation_bytes});
    }
  }
}

// The mean takes the weights' place, and the weights the mean's.
void FitRun::swap_mean() {
  if (ema_.empty()) return;
  std::swap_ranges(ema_.begin(), ema_.end(), group_.weights().begin());
  for (int rank = 0; rank < group_.size(); ++rank) group_.replica(rank).parameters_changed();
}

EvaluationSums FitRun::evaluate_all(std::int64_t max_batches) {
  const auto feed = input_.validation->open(0, nullptr);
  const EvaluationContext context{
      .feed = *feed,
      .stop = options_.stop,
      .max_batches = max_batches,
      .on_step = [this](std::int64_t batches) { tell(&Observer::on_evaluation_step, batches); }};
  EvaluationSums sums;
  group_.run(*feed, [&](Replica& replica) {
    EvaluationSums own = evaluate_replica(context, replica);
    if (replica.rank() == 0) sums = std::move(own);
  });
  return sums;
}

void FitRun::check_sanity() {
  if (input_.validation == nullptr || options_.sanity_val_steps <= 0) return;
  const EvaluationSums sums = evaluate_all(options_.sanity_val_steps);
  options_.log.info(
      fmt::format("Sanity check: {:.0f} samples evaluated before training", sums.all.back()));
}

void FitRun::evaluate(EpochEvent& event) {
  tell(&Observer::on_evaluation_start, event.epoch);
  swap_mean();
  const EvaluationSums sums = evaluate_all(0);
  swap_mean();
  event.val = values_of(input_.objective, sums.all, sums.all_records);
  event.replica_val = values_of(input_.objective, sums.replica, sums.replica_records);
  event.val_samples = std::llround(sums.all.back());
}

// The epoch's steps are kept when the stop comes in its evaluation: that is done again.
void FitRun::evaluate_or_stop(EpochEvent& event) {
  try {
    evaluate(event);
  } catch (const Error&) {
    if (!options_.stop.stop_requested()) throw;
    swap_mean();
    result_.end.stopped_by = "signal";
    stop_in_epoch();
  }
}

bool FitRun::is_better(double value, double than) const {
  return less_is_better(monitor_) ? value < than : value > than;
}

bool FitRun::is_best(const EpochEvent& event) {
  const double value = monitored_value(monitor_, event);
  if (!std::isfinite(value) || (state_.best && !is_better(value, *state_.best))) return false;
  state_.best = value;
  state_.best_epoch = event.epoch;
  return true;
}

void FitRun::save(const std::string& name) {
  if (checkpoint_folder_.empty()) return;
  save_checkpoint(checkpoint_folder_, name, state_, tensors());
  const std::string path = checkpoint_folder_ + "/" + name;
  if (name == "best") result_.best_checkpoint = path;
  if (name == "last") result_.last_checkpoint = path;
  tell(&Observer::on_checkpoint, path);
}

void FitRun::save_top(const EpochEvent& event) {
  const double value = monitored_value(monitor_, event);
  const auto limit = static_cast<std::size_t>(options_.checkpoint.top_k);
  if (limit == 0 || checkpoint_folder_.empty() || !std::isfinite(value)) return;
  auto& top = state_.top;
  const auto place = std::find_if(top.begin(), top.end(),
                                  [&](const auto& one) { return is_better(value, one.second); });
  if (place == top.end() && top.size() >= limit) return;
  const std::string name = fmt::format("epoch-{:04}", event.epoch);
  top.insert(place, {name, value});
  std::string dropped;
  if (top.size() > limit) {
    dropped = top.back().first;
    top.pop_back();
  }
  save(name);
  std::error_code ignored;  // one too many is no reason to end a run
  if (!dropped.empty()) std::filesystem::remove_all(checkpoint_folder_ + "/" + dropped, ignored);
}

void FitRun::save_in_epoch() {
  const EpochTotals& first = totals_.front();
  // The last device's batch is the last one of the round.
  const auto& position = totals_.back().position;
  state_.step_in_epoch = first.steps;
  state_.global_step = first.global_step;
  state_.meters = nlohmann::json(first.sums).dump();
  if (position != nullptr) state_.position = position->to_json();
  last_save_ = SteadyClock::now();
  if (options_.checkpoint.save_last) save("last");
}

void FitRun::stop_in_epoch() {
  save_in_epoch();
  result_.end.interrupted = result_.end.stopped_by == "signal";
}

void FitRun::run_epoch(std::int64_t epoch) {
  const auto start = SteadyClock::now();
  tell(&Observer::on_epoch_start, epoch + 1);
  options_.log.info(epoch_begin_line(epoch + 1, clock_time()));
  const std::int64_t first_step = state_.step_in_epoch;
  std::optional<pipeline::Position> position;
  if (!state_.position.empty()) position = pipeline::Position::from_json(state_.position);
  const auto feed =
      input_.train.open(static_cast<std::uint32_t>(epoch), position ? &*position : nullptr);
  train(epoch, *feed);
  EpochEvent event = make_event(epoch, first_step, *feed);
  const EpochTotals& totals = totals_.front();
  if (totals.skipped_steps > 0) {
    options_.log.warn(fmt::format("Epoch {}: {} steps skipped, their loss was not finite",
                                  event.epoch, totals.skipped_steps));
  }
  state_.batch_size = totals.batch_size;
  if (totals.stopped) return stop_in_epoch();
  shown_steps_ = totals.steps;
  tell(&Observer::on_train_end, event);
  options_.log.info(epoch_end_line(event, clock_time()));
  if (input_.validation != nullptr) evaluate_or_stop(event);
  if (result_.end.interrupted) return;
  event.seconds = seconds_since(start);
  end_epoch(event);
}

void FitRun::end_epoch(EpochEvent& event) {
  state_.epoch = event.epoch;
  state_.global_step = totals_.front().global_step;
  state_.step_in_epoch = 0;
  state_.position.clear();
  state_.meters.clear();
  event.is_best = is_best(event);
  save_top(event);
  if (event.is_best && options_.checkpoint.save_best) save("best");
  if (options_.checkpoint.save_last) save("last");
  last_save_ = SteadyClock::now();
  take_compilations(event);
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
  begin_ = last_save_ = SteadyClock::now();
  start();
  tell(&Observer::on_fit_start);
  check_sanity();
  while (state_.epoch < options_.epochs && result_.end.stopped_by.empty()) {
    run_epoch(state_.epoch);
  }
  finish();
  return std::move(result_);
}

}  // namespace millrace::trainer::detail
