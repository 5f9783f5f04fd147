#include "trainer/detail/loop/run_saves.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/json.h"
#include "pipeline/position.h"
#include "trainer/detail/loop/fit_start.h"
#include "trainer/detail/store/run_folder.h"
#include "trainer/detail/store/store_lock.h"
#include "trainer/detail/weight_ties.h"

namespace millrace::trainer::detail {
namespace {

TrainState fresh_state(const RunParts& run) {
  const TrainOptions& options = run.options;
  return {.run = new_run_mark(),
          .model = run.input.model.name(),
          .seed = options.seed,
          .world = run.group.topology().world_size(),
          .batch_size = run.input.train.batch_size(),
          .accumulate = options.accumulate,
          .optimizer = std::string(options.optimizer.rule.type().name().word),
          .monitor = resolve_monitor(options.checkpoint.monitor, run.input.objective.measures(),
                                     run.input.validation != nullptr),
          .options = options.config_json,
          .settings = saved_settings(options),
          .has_init = !options.init.empty()};
}

CheckpointHooks hooks_to(RunOutput& output) {
  return {
      .before =
          [&output](const std::string& path) {
            output.check_in_place();
            output.tell(&Observer::on_checkpoint_start, path);
          },
      .progress =
          [&output](const CheckpointStep& step) {
            output.tell(&Observer::on_checkpoint_step, step);
          },
      .saved = [&output](const std::string& path) { output.tell(&Observer::on_checkpoint, path); }};
}

/// Only which samples it has: their order changes no measure.
std::optional<pipeline::DataIdentity> validation_identity(const Feed* feed) {
  if (feed == nullptr) return pipeline::DataIdentity{};
  std::optional<pipeline::DataIdentity> identity = feed->identity();
  if (identity) identity->forget_order();
  return identity;
}

/// After the last batch that any replica took: of a step's batches that of the last device, or of
/// the last one whose input had not ended.
std::shared_ptr<const pipeline::Position> last_position(std::span<const EpochTotals> totals) {
  std::shared_ptr<const pipeline::Position> last;
  for (const EpochTotals& one : totals) {
    if (one.position == nullptr) continue;
    if (last == nullptr || one.position->slots > last->slots) last = one.position;
  }
  return last;
}

}  // namespace

RunSaves::RunSaves(const RunParts& run, const io::Opener& opener)
    : run_(run),
      opener_(opener),
      state_(fresh_state(run)),
      keeper_(run.options, opener, run.weights, state_, hooks_to(run.output)) {}

/// The newest checkpoint of the folder; empty if it has none. One that is there and of no use is
/// not replaced by a run that begins anew.
std::string RunSaves::find_newest() const {
  const Log& log = run_.options.log;
  const NewestCheckpoint newest = find_newest_checkpoint(keeper_.folder(), log, opener_);
  if (!newest.path.empty()) return newest.path;
  const std::string folder = io::printable_url(keeper_.folder());
  if (!newest.skipped.empty())
    throw Error(ErrorCode::kInvalidArgument,
                "no run can be continued from what is in " + folder +
                    ": --force starts over, --resume PATH takes another checkpoint");
  const std::string& run_folder = run_.options.run_folder;
  if (!run_folder.empty() && has_metrics(run_folder, opener_))
    log.warn("there is no checkpoint in " + folder +
             ": the run begins anew, and its metrics follow those of the earlier one");
  return {};
}

std::string RunSaves::resume() {
  const TrainOptions& options = run_.options;
  if (options.resume.empty() && keeper_.folder().empty()) return {};
  state_.data = run_.input.train.identity();
  state_.validation = validation_identity(run_.input.validation);
  if (run_.output.is_locked()) recover_checkpoints(keeper_.folder(), options.log);
  if (options.resume.empty()) return {};
  std::string from = options.resume == "auto"
                         ? find_newest()
                         : find_checkpoint(options.resume, "last", opener_, options.log);
  if (from.empty()) return from;
  state_ = resume_from(from, state_, run_.group.topology(), run_.weights.tensors(), options);
  return from;
}

// A new folder is created last, so that a run that is refused leaves nothing behind.
void RunSaves::open_first() {
  run_.output.lock_if_there();
  run_.weights.initialise(run_.options);
  const std::string ties = ties_line(run_.input.model.parameters());
  if (!ties.empty()) run_.options.log.info(ties);
  resumed_ = resume();
  run_.output.lock();
  const TrainOptions& options = run_.options;
  if (options.resume.empty() && run_.output.is_locked())
    set_earlier_run_aside(options.run_folder, opener_, options.log, options.stop);
  run_.output.open_files();
}

void RunSaves::open() {
  const std::string state = run_.processes.decide([&] {
    open_first();
    return run_.processes.is_alone() ? std::string() : state_.to_json();
  });
  if (run_.processes.is_first()) return;
  run_.weights.initialise(run_.options);
  state_ = TrainState::from_json(state);
}

void RunSaves::begin() {
  are_any_ = run_.processes.any(!keeper_.folder().empty());
  run_.processes.first_does([&] {
    if (!resumed_.empty()) keeper_.bring_best(resumed_);
    save_if_behind();
  });
}

// If the earlier run was killed before it saved `last`, the best checkpoint may be the newest.
void RunSaves::save_if_behind() {
  const bool done = !resumed_.empty() && state_.epoch >= run_.options.epochs;
  if (done && resumed_ != keeper_.folder() + "/last") keeper_.save_in_epoch();
}

/// Of all processes, which are at the same step; the one that the epoch was continued from, or none
/// if it was not, where none of them has taken a step since.
std::string RunSaves::joined_position(std::span<const EpochTotals> totals) const {
  const auto epoch = static_cast<std::uint32_t>(state_.epoch);
  const auto own = last_position(totals);
  std::vector<pipeline::Position> parts;
  bool any = false;
  for (const std::string& part : run_.processes.gather(own ? own->to_json() : std::string())) {
    any = any || !part.empty();
    parts.push_back(part.empty() ? pipeline::Position::start_of(epoch)
                                 : pipeline::Position::from_json(part));
  }
  const bool is_unmoved = totals.front().steps == state_.step_in_epoch;
  // A feed's batches need not have positions: then nobody can go on from here.
  if (!any) return is_unmoved || !state_.position.empty() ? state_.position : std::string();
  return pipeline::Position::joined(parts).to_json();
}

void RunSaves::save_in_epoch(std::span<const EpochTotals> totals) {
  const EpochTotals& first = totals.front();
  state_.position = joined_position(totals);
  state_.step_in_epoch = first.steps;
  state_.global_step = first.global_step;
  state_.skipped_updates = first.skipped_updates;
  state_.meters = nlohmann::json(first.sums).dump();
  run_.processes.first_does([&] { keeper_.save_in_epoch(); });
}

void RunSaves::save_finished_steps(std::span<const EpochTotals> totals, const std::string& faulty) {
  if (!run_.processes.is_alone() && !run_.processes.has_thrown_alike()) return;
  const EpochTotals& first = totals.front();
  const bool whole = std::ranges::all_of(
      totals, [&](const EpochTotals& one) { return one.whole && one.steps == first.steps; });
  if (!whole || first.steps == state_.step_in_epoch || !are_any_) return;
  const Log& log = run_.options.log;
  try {
    for (auto* set : {&state_.data, &state_.validation})
      if (*set) (*set)->forget(faulty);
    save_in_epoch(totals);
    run_.processes.first_does([&] { keeper_.finish(); });
    log.warn(fmt::format("the run fails after step {} of epoch {}: {} holds the state up to there",
                         first.steps, state_.epoch + 1, keeper_.last()));
  } catch (const std::exception& error) {
    log.warn(fmt::format("the steps before the failure are lost: {}", fault_text(error)));
  }
}

bool RunSaves::is_best(const EpochEvent& event) const {
  return !run_.processes.decide([&] { return keeper_.is_best(event) ? "best" : ""; }).empty();
}

void RunSaves::end_epoch(const EpochEvent& event, const EpochTotals& totals) {
  state_.epoch = event.epoch;
  state_.global_step = event.global_step;
  state_.skipped_updates = totals.skipped_updates;
  state_.step_in_epoch = 0;
  state_.position.clear();
  state_.meters.clear();
  run_.processes.first_does([&] { keeper_.end_epoch(event); });
}

SavedResult RunSaves::finish() {
  const auto told = parse_json<nlohmann::json>(run_.processes.decide([&] {
    run_.output.check_in_place();
    keeper_.finish();
    return nlohmann::json{{"best", state_.best ? nlohmann::json(*state_.best) : nullptr},
                          {"best_epoch", state_.best_epoch},
                          {"last_path", keeper_.last()},
                          {"best_path", keeper_.best()}}
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }),
                                               "the run's end");
  SavedResult saved{.best_epoch = told.at("best_epoch"),
                    .last_path = told.at("last_path"),
                    .best_path = told.at("best_path")};
  if (!told.at("best").is_null()) saved.best = told.at("best").get<double>();
  return saved;
}

}  // namespace millrace::trainer::detail
