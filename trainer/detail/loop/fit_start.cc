#include "trainer/detail/loop/fit_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/suggest.h"
#include "io/byte_sink.h"
#include "pipeline/position.h"
#include "trainer/detail/loop/described_options.h"
#include "trainer/detail/loop/old_settings.h"
#include "trainer/detail/loop/resumed_best.h"
#include "trainer/detail/loop/start_filters.h"
#include "trainer/detail/store/checkpoint_folder.h"

namespace millrace::trainer::detail {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, why, {.url = path, .stage = "checkpoint"});
}

/// Differences of the run itself, without its input's.
std::vector<std::string> differences_of(const TrainState& saved, const TrainState& given) {
  std::vector<std::string> lines;
  if (saved.world != given.world)
    lines.push_back(fmt::format("devices: {} saved, {} given", saved.world, given.world));
  if (saved.global_batch() != given.global_batch())
    lines.push_back(fmt::format("global batch: {} saved, {} given", saved.global_batch(),
                                given.global_batch()));
  if (saved.seed != given.seed)
    lines.push_back(fmt::format("seed: {} saved, {} given", saved.seed, given.seed));
  return lines;
}

/// By the names of now.
std::vector<Setting> renewed_settings(std::vector<Setting> saved, std::span<const Setting> now,
                                      const TrainOptions& options) {
  if (options.settings.empty()) return with_new_names(std::move(saved), now);
  return options.renew_settings ? options.renew_settings(std::move(saved), now) : saved;
}

void begin_epoch_again(TrainState& state) {
  state.position.clear();
  state.meters.clear();
  state.step_in_epoch = 0;
}

/// The first difference between what the two training sets are; empty if there is none.
std::string set_difference(const TrainState& saved, const TrainState& given) {
  if (!saved.data || !given.data) return {};
  const std::string list = list_difference(*saved.data, *given.data);
  return list.empty() ? content_difference(*saved.data, *given.data) : list;
}

/// Whether a position in the one set is none in the other: their lists or counts differ.
bool divides_otherwise(const TrainState& saved, const TrainState& given) {
  if (!saved.data || !given.data) return false;
  const auto samples = [](const pipeline::ShardIdentity& one,
                          const pipeline::ShardIdentity& other) {
    return one.samples == other.samples;
  };
  return !list_difference(*saved.data, *given.data).empty() ||
         !std::ranges::equal(saved.data->shards, given.data->shards, samples);
}

/// Throws: InvalidArgument if the training set has changed and that is not allowed. If it is, and
/// `saved` is in the middle of an epoch that the set's change divides otherwise, the epoch begins
/// again.
void check_set(const std::string& path, TrainState& saved, const TrainState& given,
               const TrainOptions& options) {
  const std::string difference = set_difference(saved, given);
  if (difference.empty()) return;
  if (!options.accept_changed_data) {
    refuse(path, "the training set has changed since the checkpoint: " + difference +
                     "; --allow-changed-data continues with it");
  }
  options.log.warn("the training set has changed since the checkpoint: " + difference);
  if (saved.position.empty() || !divides_otherwise(saved, given)) return;
  options.log.warn("the epoch begins again: its position is of another training set");
  begin_epoch_again(saved);
}

/// Adds what differs in the input's options and may.
void check_input(const std::string& path, const TrainState& saved, const TrainState& given,
                 std::vector<std::string>& differences) {
  if (!saved.data || !given.data) return;
  const std::vector<std::string> lines = option_differences(*saved.data, *given.data);
  if (!lines.empty() && !saved.position.empty()) {
    refuse(path,
           fmt::format("the checkpoint is in mid-epoch and continues only with its own input: {}",
                       fmt::join(lines, "; ")));
  }
  differences.insert(differences.end(), lines.begin(), lines.end());
}

/// What is written there is found again by a listing.
void check_folder(const std::string& folder, const io::Opener& opener) {
  if (!io::is_network_url(folder)) return io::check_local_path(folder);
  require(opener.can_list(folder),
          io::printable_url(folder) +
              ": a run's folder is on a disk or in a store that lists its objects (s3://, gs://)");
}

void check_options(const TrainOptions& options) {
  constexpr std::int64_t kMaxEpochs = std::int64_t{1} << 31;
  require(options.epochs > 0 && options.epochs < kMaxEpochs,
          "a run needs at least one epoch, and fewer than 2^31");
  require(options.log_steps >= 0, "steps between log lines must not be negative");
  require(options.accumulate > 0, "a step takes at least one batch");
  require(options.schedule_epochs >= 0 && std::isfinite(options.schedule_epochs),
          "the epochs of a schedule must not be negative");
  require(options.steps_per_epoch >= 0 && options.sanity_val_steps >= 0 &&
              options.checkpoint.every_steps >= 0 && options.checkpoint.top_k >= 0,
          "numbers of steps and of checkpoints must not be negative");
  require(options.max_time.count() >= 0 && options.checkpoint.every.count() >= 0,
          "times must not be negative");
  require(options.clip.norm >= 0.0 && options.clip.value >= 0.0F,
          "bounds of gradients must not be negative");
  require(options.ema_decay >= 0.0 && options.ema_decay < 1.0,
          "the decay of the weights' EMA must lie in [0, 1)");
  require(options.init.empty() || options.resume.empty() || options.resume == "auto",
          "a run either starts from weights or continues from a checkpoint");
  for (const std::string& folder : {options.run_folder, options.checkpoint.folder})
    check_folder(folder, *checkpoint_opener(options));
}

std::vector<std::string> names_of(const ParameterTable& table) {
  std::vector<std::string> names;
  for (const Parameter& entry : table.entries()) names.push_back(entry.name);
  return names;
}

/// What a name that matches nothing may have been meant for.
std::string group_advice(const std::string& parameters, const ParameterTable& table) {
  constexpr std::size_t kMostNames = 4;
  const std::string special = "norms-biases";
  std::vector<std::string> names = names_of(table);
  names.push_back(special);
  const std::string near = did_you_mean(parameters, names);
  if (!near.empty()) return near;
  names.pop_back();
  const bool has_more = names.size() > kMostNames;
  names.resize(std::min(names.size(), kMostNames));
  return fmt::format("; there are {}{}", fmt::join(names, ", "), has_more ? ", ..." : "");
}

/// Layers that are meant to be frozen and train would be found by nobody.
void check_groups(const OptimizerOptions& optimizer, const ParameterTable& table) {
  const std::vector<ParameterGroup> groups = optimizer.rule.make()->settings().groups;
  std::vector<bool> used(groups.size());
  std::vector<bool> matches(groups.size());
  for (const Parameter& entry : table.entries()) {
    bool is_first = true;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (!groups[i].has(entry)) continue;
      matches[i] = true;
      used[i] = used[i] || std::exchange(is_first, false);
    }
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (used[i]) continue;
    const std::string group = "the optimizer's group(" + groups[i].parameters + ")";
    require(matches[i],
            group + " has no parameter of the model" + group_advice(groups[i].parameters, table));
    require(false, group +
                       " has no parameter left: groups before it have all of its own, and the "
                       "first that has a parameter counts");
  }
}

/// What must be equal on all processes: what is computed, and in how many collectives.
std::vector<Setting> shared_settings(const FitInput& input, const TrainOptions& options) {
  std::vector<Setting> all = {
      {.name = "model", .value = input.model.name()},
      {.name = "parameters", .value = fmt::format("{}", input.model.parameters().num_values())},
      {.name = "buffers", .value = fmt::format("{}", input.model.buffers().num_values())},
      {.name = "measures", .value = fmt::format("{}", fmt::join(input.objective.measures(), " "))},
      {.name = "batch size", .value = fmt::format("{}", input.train.batch_size())},
      {.name = "validation", .value = fmt::format("{}", input.validation != nullptr)},
      {.name = "start samples", .value = fmt::format("{}", start_slots(input.model))}};
  std::ranges::copy(describe(options), std::back_inserter(all));
  std::ranges::copy(options.settings, std::back_inserter(all));
  return all;
}

std::vector<Setting> of_scope(const std::vector<Setting>& settings, SettingScope scope) {
  std::vector<Setting> some;
  std::ranges::copy_if(settings, std::back_inserter(some),
                       [scope](const Setting& one) { return one.scope == scope; });
  return some;
}

/// What differs from the saved settings of those that have `scope` now, a line each.
std::vector<std::string> changed_settings(const TrainState& saved, const TrainState& given,
                                          SettingScope scope) {
  const std::vector<Setting> now = of_scope(given.settings, scope);
  std::vector<Setting> before;
  for (const Setting& one : saved.settings)
    if (std::ranges::count(now, one.name, &Setting::name) > 0) before.push_back(one);
  return setting_differences(before, "saved", now, "given");
}

/// Adds what differs in the run's settings and may. A line that says the same of the input goes.
void check_settings(const std::string& path, const TrainState& saved, const TrainState& given,
                    std::vector<std::string>& differences, const Log& log) {
  const auto lines = changed_settings(saved, given, SettingScope::kRun);
  if (!lines.empty() && !saved.position.empty()) {
    refuse(path, fmt::format("the checkpoint is in mid-epoch and continues only with its own "
                             "options: {}",
                             fmt::join(lines, "; ")));
  }
  std::erase_if(differences, [&](const std::string& line) {
    return std::ranges::count(lines, line) > 0 || std::ranges::count(lines, "--" + line) > 0;
  });
  differences.insert(differences.end(), lines.begin(), lines.end());
  const auto others = changed_settings(saved, given, SettingScope::kStart);
  if (!others.empty())
    log.info(fmt::format("resumed with other options than before: {}", fmt::join(others, "; ")));
}

std::string batch_text(const TrainState& state) {
  const std::string steps =
      state.accumulate > 1 ? fmt::format(" x {} batches per step", state.accumulate) : "";
  return fmt::format("{} = {} device{} x {}{}", state.global_batch(), state.world,
                     state.world == 1 ? "" : "s", state.batch_size, steps);
}

/// The batch size that keeps the global batch, or what else does.
std::string remedy(const TrainState& saved, const TrainState& given) {
  const std::int64_t others = given.world * given.accumulate;
  if (saved.global_batch() % others == 0)
    return fmt::format("a batch size of {} continues it", saved.global_batch() / others);
  return fmt::format("{} device{} with a batch size of {} continue it", saved.world,
                     saved.world == 1 ? "" : "s", saved.batch_size);
}

/// An epoch is continued by any number of devices and processes, in steps of as many samples.
void check_steps(const std::string& path, const TrainState& saved, const TrainState& given,
                 const Topology& topology) {
  if (saved.position.empty()) return;
  const bool is_known = saved.global_batch() > 0 && given.global_batch() > 0;
  if (is_known && saved.global_batch() != given.global_batch()) {
    refuse(path,
           fmt::format("the checkpoint is in mid-epoch and continues only with its own global "
                       "batch: {} saved, {} given; {}",
                       batch_text(saved), batch_text(given), remedy(saved, given)));
  }
  try {
    // Which streams are a process's own the feed alone knows, and refuses.
    const auto position = pipeline::Position::from_json(saved.position);
    static_cast<void>(position.share(topology, position.stripe));
  } catch (const Error& error) {
    refuse(path, std::string("the checkpoint is in mid-epoch: ") + error.message());
  }
}

}  // namespace

TrainOptions settle_options(Processes& processes, const FitInput& input,
                            const TrainOptions& options) {
  check_options(options);
  check_groups(options.optimizer, input.model.parameters());
  check_alike(processes.cluster(), shared_settings(input, options));
  TrainOptions own = options;
  for (std::string* folder : {&own.run_folder, &own.checkpoint.folder})
    while (io::is_network_url(*folder) && folder->ends_with('/')) folder->pop_back();
  if (processes.is_first()) return own;
  own.max_time = {};
  own.init.clear();
  own.resume.clear();
  own.run_folder.clear();
  own.checkpoint.folder.clear();
  own.log = {};
  return own;
}

std::vector<Setting> saved_settings(const TrainOptions& options) {
  return options.settings.empty() ? describe(options) : options.settings;
}

std::int64_t settle_steps_per_epoch(Processes& processes, const Feed& train,
                                    const TrainOptions& options, const Schedule& schedule) {
  const std::int64_t given = options.steps_per_epoch;
  if (given > 0 && !schedule.needs_steps_per_epoch()) return given;
  const std::int64_t batches = processes.max(train.steps_per_epoch());
  const std::int64_t steps = (batches + options.accumulate - 1) / options.accumulate;
  if (given > 0 && steps > 0 && steps != given)
    options.log.warn(fmt::format(
        "an epoch has {} steps, and {} were given (--steps-per-epoch): the learning rate {}", steps,
        given,
        given < steps ? "runs ahead in each epoch, and goes back at its end"
                      : "lags in each epoch, and jumps at its end"));
  return given > 0 ? given : steps;
}

Schedule make_schedule(const TrainOptions& options, const Model& model, std::int64_t batch_size,
                       int world) {
  const std::unique_ptr<UpdateRule> rule = options.optimizer.rule.make();
  require(!options.scale_lr || rule->settings().lr,
          "scale_lr needs the rule's rate: its default depends on the samples in a step already");
  const double lr =
      rule->settings().lr_for(batch_size * world * options.accumulate, has_batch_norms(model));
  return {options.schedule,
          {.base_lr = options.scale_lr ? lr * world : lr,
           .epochs = options.schedule_epochs > 0 ? options.schedule_epochs
                                                 : static_cast<double>(options.epochs)}};
}

TrainState resume_from(const std::string& path, const TrainState& fresh, const Topology& topology,
                       const CheckpointTensors& tensors, const TrainOptions& options) {
  const auto opener = checkpoint_opener(options);
  TrainState found = read_checkpoint_state(path, *opener);
  found.settings = renewed_settings(std::move(found.settings), fresh.settings, options);
  if (found.model == fresh.model && found.optimizer != fresh.optimizer) {
    refuse(path, "the checkpoint was trained with " + found.optimizer + ", the run asks for " +
                     fresh.optimizer);
  }
  std::vector<std::string> differences = differences_of(found, fresh);
  if (options.scale_lr && found.world != fresh.world)
    differences.push_back(fmt::format("learning rate: x {} devices saved, x {} given (scale_lr)",
                                      found.world, fresh.world));
  const bool in_epoch = !found.position.empty();
  check_set(path, found, fresh, options);
  check_steps(path, found, fresh, topology);
  check_input(path, found, fresh, differences);
  check_settings(path, found, fresh, differences, options.log);
  continue_best(path, found, fresh, options, *opener);
  TrainState state = load_checkpoint(path, fresh.model, tensors, *opener);
  if (in_epoch && found.position.empty()) begin_epoch_again(state);
  if (state.step_in_epoch > 0 && state.position.empty()) {
    options.log.warn(
        fmt::format("epoch {} begins again, after {} of its steps: the feed's batches "
                    "have no positions (Batch::position) to go on from",
                    state.epoch + 1, state.step_in_epoch));
    begin_epoch_again(state);
  }
  if (!differences.empty()) {
    options.log.warn(fmt::format(
        "resumed with another setting ({}): the run will not be the same, bit for bit, as one "
        "without a break",
        fmt::join(differences, "; ")));
  }
  state.best = found.best;
  state.best_epoch = found.best_epoch;
  state.top = found.top;
  if (state.run.empty()) state.run = fresh.run;
  state.seed = fresh.seed;
  state.world = fresh.world;
  state.batch_size = fresh.batch_size;
  state.accumulate = fresh.accumulate;
  state.monitor = fresh.monitor;
  state.data = fresh.data;
  state.validation = fresh.validation;
  state.options = fresh.options;
  state.settings = fresh.settings;
  options.log.info(fmt::format("Resumed from {} at epoch {}, step {}", io::printable_url(path),
                               state.epoch + 1, state.step_in_epoch));
  return state;
}

}  // namespace millrace::trainer::detail
