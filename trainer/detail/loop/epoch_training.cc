#include "trainer/detail/loop/epoch_training.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "pipeline/position.h"
#include "trainer/detail/loop/epoch_report.h"
#include "trainer/detail/loop/feed_pass.h"

namespace millrace::trainer::detail {
namespace {

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

/// Of an epoch of `steps` steps in this session.
std::string skipped_steps_text(const EpochEvent& event, std::int64_t steps) {
  if (event.skipped_steps < steps)
    return fmt::format("Epoch {}: {} of {} skipped, their loss or gradients were not finite",
                       event.epoch, event.skipped_steps,
                       counted(static_cast<std::uint64_t>(steps), "step"));
  return fmt::format(
      "Epoch {}: all of its steps ({}) were skipped, their loss or gradients were not finite, so "
      "it has not changed the weights: lower the learning rate, or check the data; weights that "
      "are lost already are those of an earlier checkpoint",
      event.epoch, steps);
}

}  // namespace

EpochTraining::EpochTraining(const RunParts& run, RunSaves& saves, const Schedule& schedule,
                             std::int64_t steps_per_epoch)
    : run_(run),
      saves_(saves),
      schedule_(schedule),
      steps_per_epoch_(steps_per_epoch),
      shown_steps_(steps_per_epoch),
      totals_(static_cast<std::size_t>(run.group.size())) {}

EpochEvent EpochTraining::run(std::int64_t epoch) {
  const std::int64_t first_step = saves_.state().step_in_epoch;
  const auto feed = open(epoch);
  train(epoch, *feed);
  EpochEvent event = make_event(epoch, first_step, *feed);
  const EpochTotals& totals = totals_.front();
  if (totals.skipped_steps > 0)
    run_.options.log.warn(skipped_steps_text(event, totals.steps - first_step));
  if (!totals.stopped) shown_steps_ = totals.steps;
  return event;
}

std::unique_ptr<EpochFeed> EpochTraining::open(std::int64_t epoch) {
  const auto number = static_cast<std::uint32_t>(epoch);
  const std::string& position = saves_.state().position;
  if (position.empty()) return run_.input.train.open(number, nullptr);
  const auto saved = pipeline::Position::from_json(position);
  return run_.input.train.open(number, &saved);
}

EpochContext EpochTraining::context_for(std::int64_t epoch, EpochFeed& feed, Failure& input) {
  const TrainState& state = saves_.state();
  return {.options = run_.options,
          .schedule = schedule_,
          .feed = feed,
          .input_failure = input,
          .host = *this,
          .topology = run_.group.topology(),
          .batch_size = run_.input.train.batch_size(),
          .epoch = epoch,
          .first_step = state.step_in_epoch,
          .global_step = state.global_step,
          .skipped_updates = state.skipped_updates,
          .starts_from_data = saves_.starts_from_data(),
          .steps_per_epoch = steps_per_epoch_,
          .shown_steps = shown_steps_,
          .first_sums = sums_from_json(state.meters, run_.input.objective.num_sums() + 1),
          .totals = totals_};
}

// A stop also ends waits for the input.
void EpochTraining::train(std::int64_t epoch, EpochFeed& feed) {
  Failure input([&](const std::exception_ptr&) { feed.stop(); });
  const std::stop_callback on_stop(run_.stop.token(), [&] { feed.stop(); });
  const EpochContext context = context_for(epoch, feed, input);
  totals_.assign(totals_.size(), {.steps = saves_.state().step_in_epoch});
  try {
    run_.group.run(feed, [&](Replica& replica) {
      ReplicaEpoch(context, replica, run_.input.devices.name(replica.device())).run();
    });
    if (was_stopped()) run_.stop.agree(input.first());
  } catch (const Error& error) {
    saves_.save_finished_steps(totals_, error.where().url);
    throw;
  } catch (...) {
    saves_.save_finished_steps(totals_);
    throw;
  }
}

EpochEvent EpochTraining::make_event(std::int64_t epoch, std::int64_t first_step, EpochFeed& feed) {
  const EpochTotals& first = totals_.front();
  ProcessReport own{.skipped = feed.skipped_samples(),
                    .refetched = feed.refetched(),
                    .busiest_stage = feed.busiest_stage(),
                    .input = feed.report()};
  for (const EpochTotals& one : totals_) {
    own.times.push_back({.all = one.times, .first = one.first_times});
    own.samples += one.replica_samples;
  }
  const ProcessReport all = gather_reports(run_.processes, own);
  EpochEvent event;
  event.epoch = epoch + 1;
  event.train = measures_of(run_.input.objective, first.sums);
  event.train_samples = std::llround(first.sums.back());
  event.skipped_steps = first.skipped_steps;
  event.skipped_step_samples = std::llround(first.skipped_step_samples);
  event.skipped_samples = all.skipped;
  event.refetched = all.refetched;
  event.replica_train_samples = first.replica_samples;
  event.train_seconds = first.seconds;
  event.rate = first.seconds > 0.0 ? static_cast<double>(all.samples) / first.seconds : 0.0;
  if (first_step == 0 && !first.stopped) {
    check_not_empty(run_.processes, fmt::format("epoch {}", event.epoch), all.samples, all.skipped);
  }
  event.stall = make_stall_report(all.times, first.steps - first_step, all.busiest_stage);
  event.step_by_rank = mean_steps(all.times, first.steps - first_step);
  event.input = all.input;
  event.global_step = first.global_step;
  event.from_step = first_step + 1;
  advise(event.stall, feed);
  samples_ += static_cast<double>(all.samples);
  seconds_ += event.train_seconds;
  return event;
}

void EpochTraining::advise(const StallReport& stall, const EpochFeed& feed) {
  if (has_advised_ || !stall.verdict.starts_with("input-bound by decode")) return;
  const std::string advice = feed.advice();
  if (advice.empty()) return;
  has_advised_ = true;
  run_.options.log.info("Autotune: input-bound by decode: " + advice);
}

void EpochTraining::on_step_start(const StepStart& step) {
  run_.output.tell(&Observer::on_step_start, step);
}

void EpochTraining::on_step(const StepEvent& event) {
  saves_.report();
  run_.output.tell(&Observer::on_step, event);
}

}  // namespace millrace::trainer::detail
