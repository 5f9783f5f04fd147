#include "trainer/detail/loop/fit_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/host.h"
#include "io/base/json.h"
#include "trainer/detail/loop/checkpoint_keeper.h"
#include "trainer/detail/loop/epoch_report.h"
#include "trainer/detail/loop/fit_start.h"
#include "trainer/detail/loop/start_filters.h"
#include "trainer/detail/store/checkpoint_folder.h"
#include "trainer/detail/store/store_lock.h"
#include "trainer/detail/weight_ties.h"
#include "trainer/log_lines.h"

namespace millrace::trainer::detail {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

/// The measures, from the objective's sums followed by the number of samples.
NamedValues values_of(const Objective& objective, const std::vector<double>& sums,
                      std::span<const float> records = {}) {
  return objective.finish(
      {.sums = std::span(sums).first(sums.size() - 1), .samples = sums.back(), .records = records});
}

/// After the last batch that any replica took: of a step's batches that of the last device, or of
/// the last one whose input had not ended.
std::shared_ptr<const pipeline::Position> last_position(const std::vector<EpochTotals>& totals) {
  std::shared_ptr<const pipeline::Position> last;
  for (const EpochTotals& one : totals) {
    if (one.position == nullptr) continue;
    if (last == nullptr || one.position->slots > last->slots) last = one.position;
  }
  return last;
}

bool is_cancelled(const std::exception_ptr& failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.code() == ErrorCode::kCancelled;
  } catch (...) {
  }
  return false;
}

std::vector<double> sums_from_json(const std::string& meters, std::size_t wanted) {
  if (meters.empty()) return {};
  auto sums = parse_json<nlohmann::json>(meters, "meters").get<std::vector<double>>();
  if (sums.size() != wanted) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the checkpoint is in mid-epoch and of another task: {} sums saved, {} "
                            "needed",
                            sums.size(), wanted),
                {.stage = "checkpoint"});
  }
  return sums;
}

}  // namespace

FitRun::FitRun(Processes& processes, const FitInput& input, const TrainOptions& options,
               const std::vector<Observer*>& observers)
    : processes_(processes),
      input_(input),
      options_(options),
      stop_(options, processes.cluster()),
      opener_(checkpoint_opener(options)),
      observers_(observers),
      schedule_(make_schedule(options, input.model, input.train.batch_size(),
                              processes.cluster().topology().world_size())),
      steps_per_epoch_(settle_steps_per_epoch(processes, input.train, options)),
      group_({.model = input.model,
              .objective = input.objective,
              .devices = input.devices,
              .cluster = processes.cluster(),
              .backend = input.backend,
              .precision = options.precision,
              .trains = true,
              .trace = options.trace}),
      weights_(input.model, group_, options.optimizer),
      state_{.run = new_run_mark(),
             .model = input.model.name(),
             .seed = options.seed,
             .world = group_.topology().world_size(),
             .batch_size = input.train.batch_size(),
             .accumulate = options.accumulate,
             .optimizer = std::string(options.optimizer.rule.type().name().word),
             .monitor = resolve_monitor(options.checkpoint.monitor, input.objective.measures(),
                                        input.validation != nullptr),
             .options = options.config_json,
             .settings = saved_settings(options)},
      keeper_(options, *opener_, weights_, state_,
              {.before =
                   [this](const std::string& path) {
                     check_folder();
                     tell(&Observer::on_checkpoint_start, path);
                   },
               .saved = [this](const std::string& path) { tell(&Observer::on_checkpoint, path); }}),
      totals_(static_cast<std::size_t>(group_.size())),
      shown_steps_(steps_per_epoch_) {
  schedule_.lr({.steps_per_epoch = steps_per_epoch_});
  input.train.plan_epochs(options.epochs);
  input.train.set_landing(group_.backend().landing(input.objective));
  if (input.validation == nullptr) return;
  input.validation->plan_epochs(1);
  input.validation->set_landing(group_.backend().landing(input.objective));
}

template <typename Member, typename... Args>
void FitRun::tell(Member member, const Args&... args) {
  for (Observer* observer : observers_) (observer->*member)(args...);
}

std::string FitRun::resume() {
  const bool automatic = options_.resume == "auto";
  if (options_.resume.empty() && keeper_.folder().empty()) return {};
  state_.data = input_.train.identity();
  if (lock_) recover_checkpoints(keeper_.folder(), options_.log);
  if (options_.resume.empty()) return {};
  std::string from = automatic ? find_newest_checkpoint(keeper_.folder(), options_.log, *opener_)
                               : find_checkpoint(options_.resume, "last", *opener_);
  if (from.empty()) return from;
  state_ = resume_from(from, state_, group_.topology(), weights_.tensors(), options_);
  return from;
}

// If the earlier run was killed before it saved `last`, the best checkpoint may be the newest.
void FitRun::save_if_behind(const std::string& resumed) {
  const bool done = !resumed.empty() && state_.epoch >= options_.epochs;
  if (done && resumed != keeper_.folder() + "/last") keeper_.save_in_epoch();
}

void FitRun::check_folder() const {
  if (lock_) lock_->check_in_place();
}

std::string FitRun::open() {
  const std::string& folder = options_.run_folder;
  const RunLockOptions lock{.opener = opener_.get(), .stop = options_.stop, .log = options_.log};
  // A new folder is created last, so that a run that is refused leaves nothing behind. A store has
  // no folders, and removes the lock.
  if (!folder.empty() && (io::is_network_url(folder) || std::filesystem::exists(folder)))
    lock_.emplace(folder, lock);
  weights_.initialise(options_);
  const std::string ties = ties_line(input_.model.parameters());
  if (!ties.empty()) options_.log.info(ties);
  std::string resumed = resume();
  if (!folder.empty() && !lock_) lock_.emplace(folder, lock);
  folder_.emplace(folder.empty() ? nullptr : open_run_files(folder, *opener_, options_.stop),
                  options_.config_json, group_.topology());
  for (Observer* observer : folder_->observers()) observers_.push_back(observer);
  return resumed;
}

void FitRun::start() {
  std::string resumed;
  const std::string state = processes_.decide([&] {
    resumed = open();
    return processes_.is_alone() ? std::string() : state_.to_json();
  });
  if (!processes_.is_first()) {
    weights_.initialise(options_);
    state_ = TrainState::from_json(state);
  }
  open_rank_logs();
  weights_.copy_from_first(processes_);
  group_.make_steps(options_, weights_.states(), weights_.ema());
  saves_ = processes_.any(!keeper_.folder().empty());
  if (options_.scale_lr) {
    options_.log.info(fmt::format("Learning rate {:g} x {} devices = {:g}",
                                  schedule_.base_lr() / state_.world, state_.world,
                                  schedule_.base_lr()));
  }
  processes_.first_does([&] { save_if_behind(resumed); });
}

void FitRun::say(const std::string& line) const {
  if (options_.epoch_lines) options_.log.info(line);
}

// A host whose disk does not take them trains as well as the others.
void FitRun::open_rank_logs() {
  if (processes_.is_alone()) return;
  const std::string folder = processes_.decide([this] { return options_.run_folder; });
  if (folder.empty()) return;
  std::string fault;
  try {
    if (!processes_.is_first())
      folder_.emplace(open_run_files(folder, *opener_, options_.stop), "", group_.topology());
  } catch (const Error& error) {
    fault =
        fmt::format("process {} on {}: {}", group_.topology().process, host_name(), error.what());
  }
  for (const std::string& one : processes_.gather(fault))
    if (!one.empty()) options_.log.warn("the logs of some ranks are not written: " + one);
}

void FitRun::on_step_start(const StepStart& step) { tell(&Observer::on_step_start, step); }

void FitRun::on_step(const StepEvent& event) {
  keeper_.report();
  tell(&Observer::on_step, event);
}

void FitRun::on_log_step(const StepEvent& event) {
  const std::string line = training_line(event, clock_time());
  if (folder_) folder_->line(event.rank, line);
  if (event.rank != 0) return;
  tell(&Observer::on_log_step, event);
  say(line);
}

EpochContext FitRun::context_for(std::int64_t epoch, EpochFeed& feed, Failure& input) {
  return {.options = options_,
          .schedule = schedule_,
          .feed = feed,
          .input_failure = input,
          .host = *this,
          .topology = group_.topology(),
          .batch_size = input_.train.batch_size(),
          .epoch = epoch,
          .first_step = state_.step_in_epoch,
          .global_step = state_.global_step,
          .steps_per_epoch = steps_per_epoch_,
          .shown_steps = shown_steps_,
          .first_sums = sums_from_json(state_.meters, input_.objective.num_sums() + 1),
          .totals = totals_};
}

void FitRun::agree_on_stop(const Failure& input) {
  const bool is_stop = is_cancelled(input.first()) && !stop_.reason().empty();
  processes_.throw_any(is_stop ? nullptr : input.first());
  agree_on_stop();
}

// A signal to any process counts before the time limit.
void FitRun::agree_on_stop() {
  for (const std::string& reason : processes_.gather(stop_.reason())) {
    if (result_.end.stopped_by.empty() || reason == "signal") result_.end.stopped_by = reason;
  }
}

// A stop also ends waits for the input.
void FitRun::train(std::int64_t epoch, EpochFeed& feed) {
  Failure input([&](const std::exception_ptr&) { feed.stop(); });
  const std::stop_callback on_stop(stop_.token(), [&] { feed.stop(); });
  const EpochContext context = context_for(epoch, feed, input);
  totals_.assign(totals_.size(), {.steps = state_.step_in_epoch});
  try {
    group_.run(feed, [&](Replica& replica) {
      ReplicaEpoch(context, replica, input_.devices.name(replica.device())).run();
    });
    if (totals_.front().stopped) agree_on_stop(input);
  } catch (const Error& error) {
    save_finished_steps(error.where().url);
    throw;
  } catch (...) {
    save_finished_steps();
    throw;
  }
}

EpochEvent FitRun::make_event(std::int64_t epoch, std::int64_t first_step, EpochFeed& feed) {
  const EpochTotals& first = totals_.front();
  ProcessReport own{.skipped = feed.skipped_samples(),
                    .refetched = feed.refetched(),
                    .busiest_stage = feed.busiest_stage(),
                    .input = feed.report()};
  for (const EpochTotals& one : totals_) {
    own.times.push_back({.all = one.times, .first = one.first_times});
    own.samples += one.replica_samples;
  }
  const ProcessReport all = gather_reports(processes_, own);
  EpochEvent event;
  event.epoch = epoch + 1;
  event.train = values_of(input_.objective, first.sums);
  event.train_samples = std::llround(first.sums.back());
  event.skipped_samples = all.skipped;
  event.refetched = all.refetched;
  event.replica_train_samples = first.replica_samples;
  event.train_seconds = first.seconds;
  event.rate = first.seconds > 0.0 ? static_cast<double>(all.samples) / first.seconds : 0.0;
  if (first_step == 0 && !first.stopped) {
    check_not_empty(processes_, fmt::format("epoch {}", event.epoch), all.samples, all.skipped);
  }
  event.stall = make_stall_report(all.times, first.steps - first_step, all.busiest_stage);
  event.step_by_rank = mean_steps(all.times, first.steps - first_step);
  event.input = all.input;
  event.global_step = first.global_step;
  samples_ += static_cast<double>(all.samples);
  train_seconds_ += event.train_seconds;
  return event;
}

void FitRun::check_sanity() {
  if (input_.validation == nullptr || options_.sanity_val_steps <= 0) return;
  EpochEvent event;
  event.epoch = 0;
  if (!evaluate(event, options_.sanity_val_steps)) {
    result_.end.interrupted = result_.end.stopped_by == "signal";
    return;
  }
  check_measures(event);
  tell(&Observer::on_evaluation_end, event);
  options_.log.info(
      fmt::format("Sanity check: {} samples evaluated before training", event.val_samples));
}

void FitRun::take_start_values() {
  const std::int64_t slots = start_slots(input_.model);
  const bool has_started = state_.global_step > 0 || !options_.init.empty();
  if (slots == 0 || has_started || !result_.end.stopped_by.empty()) return;
  const std::int64_t batch_size = input_.train.batch_size();
  require(batch_size > 0, "whitening of samples before the first step needs the batches' size");
  std::vector<StartFilters> filters;
  for (int device = 0; device < group_.size(); ++device)
    filters.emplace_back(group_.replica(device), StartFilters::From::kSlots);
  const auto of = [&](const Replica& replica) -> StartFilters& {
    return filters[static_cast<std::size_t>(replica.device())];
  };
  const std::int64_t round = batch_size * state_.world;
  const auto feed = input_.train.open(static_cast<std::uint32_t>(state_.epoch), nullptr);
  const bool is_whole = run_pass(
      {.group = group_,
       .processes = processes_,
       .feed = *feed,
       .stop = stop_.token(),
       .max_batches = (slots + round - 1) / round},
      [&](Replica& replica, const pipeline::Batch* batch) {
        if (batch == nullptr) return;
        of(replica).add(*batch, slot_numbers(*batch, batch_size, group_.topology()));
      },
      [&](Replica& replica) {
        of(replica).write();
        replica.clock().take();  // no step's
      });
  if (is_whole) return;
  agree_on_stop();
  result_.end.interrupted = result_.end.stopped_by == "signal";
}

bool FitRun::evaluate(EpochEvent& event, std::int64_t max_batches) {
  tell(&Observer::on_evaluation_start, event.epoch);
  const auto start = SteadyClock::now();
  const auto feed = input_.validation->open(0, nullptr);
  EvaluationSums sums;
  {
    const EmaInPlace ema(weights_);
    sums = evaluate_group(
        {.group = group_,
         .processes = processes_,
         .feed = *feed,
         .stop = stop_.token(),
         .max_batches = max_batches},
        [this](std::int64_t batches) { tell(&Observer::on_evaluation_step, batches); });
  }
  if (sums.stopped) {
    agree_on_stop();
    return false;
  }
  event.val_seconds = seconds_since(start);
  event.val_skipped_samples = sums.skipped;
  event.val_samples = sums.samples();
  check_not_empty(processes_, "the evaluation", event.val_samples, event.val_skipped_samples);
  event.val = values_of(input_.objective, sums.all, sums.all_records);
  event.val_non_finite = sums.non_finite;
  event.replica_val = values_of(input_.objective, sums.replica, sums.replica_records);
  for (const std::vector<double>& rank : sums.by_rank)
    event.val_by_rank.push_back(
        {.samples = std::llround(rank.back()), .values = values_of(input_.objective, rank)});
  return true;
}

template <typename Work>
void FitRun::or_save(const Work& work) {
  try {
    work();
  } catch (...) {
    save_finished_steps();
    throw;
  }
}

// A stop or a fault in an epoch's evaluation keeps the epoch's steps; a resumed run evaluates
// again. Weights whose outputs are not finite are nothing to keep.
bool FitRun::evaluate_or_stop(EpochEvent& event) {
  bool whole = false;
  or_save([&] { whole = evaluate(event, 0); });
  if (!whole) {
    stop_in_epoch();
    return false;
  }
  check_measures(event);
  or_save([&] { tell(&Observer::on_evaluation_end, event); });
  return true;
}

void FitRun::check_measures(EpochEvent& event) {
  const std::string fault = non_finite_text(event.val_non_finite, event.val_samples, event.val);
  if (fault.empty()) return;
  const std::string text = fmt::format(
      "the evaluation {}: {}",
      event.epoch == 0 ? "before training" : fmt::format("of epoch {}", event.epoch), fault);
  if (options_.on_non_finite == OnNonFinite::kFail)
    processes_.throw_alike(std::make_exception_ptr(
        Error(ErrorCode::kNotFinite, text + ": lower the learning rate or check the data",
              {.stage = "evaluation"})));
  options_.log.warn(text + "; it has no measures");
  event.val_by_rank.clear();
  for (NamedValues* values : {&event.val, &event.replica_val})
    for (auto& [name, value] : *values) value = std::nan("");
}

/// Of all processes, which are at the same step; the one that the epoch was continued from, or none
/// if it was not, where none of them has taken a step since.
std::string FitRun::joined_position() {
  const auto epoch = static_cast<std::uint32_t>(state_.epoch);
  const auto own = last_position(totals_);
  std::vector<pipeline::Position> parts;
  bool any = false;
  for (const std::string& part : processes_.gather(own ? own->to_json() : std::string())) {
    any = any || !part.empty();
    parts.push_back(part.empty() ? pipeline::Position::start_of(epoch)
                                 : pipeline::Position::from_json(part));
  }
  const bool is_unmoved = totals_.front().steps == state_.step_in_epoch;
  if (!any && (is_unmoved || !state_.position.empty())) return state_.position;
  return pipeline::Position::joined(parts).to_json();
}

void FitRun::save_in_epoch() {
  const EpochTotals& first = totals_.front();
  state_.position = joined_position();
  state_.step_in_epoch = first.steps;
  state_.global_step = first.global_step;
  state_.meters = nlohmann::json(first.sums).dump();
  processes_.first_does([&] { keeper_.save_in_epoch(); });
}

void FitRun::save_finished_steps(const std::string& faulty) {
  if (!processes_.is_alone() && !processes_.has_thrown_alike()) return;
  const EpochTotals& first = totals_.front();
  const bool whole = std::ranges::all_of(
      totals_, [&](const EpochTotals& one) { return one.whole && one.steps == first.steps; });
  if (!whole || first.steps == state_.step_in_epoch || !saves_) return;
  try {
    if (state_.data) state_.data->forget(faulty);
    save_in_epoch();
    processes_.first_does([&] { keeper_.finish(); });
    options_.log.warn(
        fmt::format("the run fails after step {} of epoch {}: {} holds the state up to there",
                    first.steps, state_.epoch + 1, keeper_.last()));
  } catch (const std::exception& error) {
    options_.log.warn(fmt::format("the steps before the failure are lost: {}", fault_text(error)));
  }
}

void FitRun::stop_in_epoch() {
  save_in_epoch();
  result_.end.interrupted = result_.end.stopped_by == "signal";
}

/// At its beginning, or where the run that is resumed stood.
std::unique_ptr<EpochFeed> FitRun::open_epoch(std::int64_t epoch) {
  const auto number = static_cast<std::uint32_t>(epoch);
  if (state_.position.empty()) return input_.train.open(number, nullptr);
  const auto saved = pipeline::Position::from_json(state_.position);
  return input_.train.open(number, &saved);
}

void FitRun::run_epoch(std::int64_t epoch) {
  const auto start = SteadyClock::now();
  tell(&Observer::on_epoch_start, epoch + 1);
  say(epoch_begin_line(epoch + 1, clock_time()));
  const std::int64_t first_step = state_.step_in_epoch;
  const auto feed = open_epoch(epoch);
  train(epoch, *feed);
  EpochEvent event = make_event(epoch, first_step, *feed);
  const EpochTotals& totals = totals_.front();
  if (totals.skipped_steps > 0) {
    options_.log.warn(
        fmt::format("Epoch {}: {} steps skipped, their loss or gradients were not finite",
                    event.epoch, totals.skipped_steps));
  }
  if (totals.stopped) return stop_in_epoch();
  shown_steps_ = totals.steps;
  tell(&Observer::on_train_end, event);
  say(epoch_end_line(event, clock_time()));
  if (input_.validation != nullptr && !evaluate_or_stop(event)) return;
  event.seconds = seconds_since(start);
  end_epoch(event);
}

void FitRun::end_epoch(EpochEvent& event) {
  state_.epoch = event.epoch;
  state_.global_step = totals_.front().global_step;
  state_.step_in_epoch = 0;
  state_.position.clear();
  state_.meters.clear();
  const std::string best =
      processes_.decide([&] { return keeper_.end_epoch(event) ? "best" : ""; });
  event.is_best = !best.empty();
  event.compilations = gather_compilations(processes_, group_.take_compilations());
  tell(&Observer::on_epoch_end, event);
  if (!event.val.empty()) say(evaluation_line(event, clock_time()));
  say(stall_line(event));
  result_.end.verdict = event.stall.verdict;
  result_.epochs.push_back(event);
}

void FitRun::finish() {
  const auto told = parse_json<nlohmann::json>(processes_.decide([&] {
    check_folder();
    keeper_.finish();
    return nlohmann::json{{"best", state_.best ? nlohmann::json(*state_.best) : nullptr},
                          {"best_epoch", state_.best_epoch},
                          {"last_path", keeper_.last()},
                          {"best_path", keeper_.best()}}
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }),
                                               "the run's end");
  EndEvent& end = result_.end;
  end.epochs = state_.epoch;
  end.monitor = state_.monitor;
  if (!told.at("best").is_null()) end.best = told.at("best").get<double>();
  end.best_epoch = told.at("best_epoch");
  end.seconds = seconds_since(begin_);
  end.mean_rate = train_seconds_ > 0.0 ? samples_ / train_seconds_ : 0.0;
  tell(&Observer::on_fit_end, end);
  finish_folder();
  say(end_line(end));
  warn_of_warmup();
  result_.last_checkpoint = told.at("last_path");
  result_.best_checkpoint = told.at("best_path");
}

void FitRun::finish_folder() {
  std::exception_ptr fault;
  try {
    if (folder_) folder_->finish();
  } catch (...) {
    fault = std::current_exception();
  }
  processes_.throw_any(fault);
}

void FitRun::warn_of_warmup() const {
  const std::int64_t steps = schedule_.warmup_steps();
  if (!result_.end.stopped_by.empty() || state_.global_step >= steps) return;
  options_.log.warn(fmt::format(
      "the run ended in its warm-up, after {} of {} steps: the learning rate never reached {:g}",
      state_.global_step, steps, schedule_.base_lr()));
}

FitResult FitRun::run() {
  begin_ = SteadyClock::now();
  try {
    run_epochs();
  } catch (const Error& error) {
    // If the folder was deleted or moved, report that instead.
    if (error.code() == ErrorCode::kIo || cannot_be_seen(error)) check_folder();
    throw;
  }
  finish();
  return std::move(result_);
}

void FitRun::run_epochs() {
  start();
  tell(&Observer::on_fit_start);
  check_sanity();
  take_start_values();
  while (state_.epoch < options_.epochs && result_.end.stopped_by.empty()) {
    run_epoch(state_.epoch);
  }
}

}  // namespace millrace::trainer::detail
