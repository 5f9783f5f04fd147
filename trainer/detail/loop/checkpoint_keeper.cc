#include "trainer/detail/loop/checkpoint_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "io/base/clock.h"
#include "io/base/error.h"
#include "io/opener.h"
#include "trainer/detail/loop/resumed_best.h"
#include "trainer/detail/store/checkpoint_files.h"
#include "trainer/monitor.h"

namespace millrace::trainer::detail {

std::string resolve_monitor(const std::string& wanted, const std::vector<std::string>& measures,
                            bool has_validation) {
  std::vector<std::string> known;
  std::string listed;
  for (const std::string part : {"val_", "train_"}) {
    if (part == "val_" && !has_validation) continue;
    for (const std::string& measure : measures) {
      known.push_back(part + measure);
      listed += (listed.empty() ? "" : ", ") + known.back();
    }
  }
  const auto has = [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  if (wanted.empty()) return default_monitor(has);
  if (has(wanted)) return wanted;
  throw Error(ErrorCode::kInvalidArgument,
              "no measure is called '" + wanted + "'; there are " + listed);
}

double monitored_value(const std::string& monitor, const EpochEvent& event) {
  const bool val = monitor.starts_with("val_");
  const auto value = find_value(val ? event.val : event.train, monitor.substr(val ? 4 : 6));
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

std::string checkpoint_folder(const TrainOptions& options) {
  if (!options.checkpoint.folder.empty() || options.run_folder.empty()) {
    return options.checkpoint.folder;
  }
  return options.run_folder + "/checkpoints";
}

CheckpointKeeper::CheckpointKeeper(const TrainOptions& options, const io::Opener& opener,
                                   RunWeights& weights, TrainState& state, CheckpointHooks hooks)
    : options_(options),
      opener_(opener),
      weights_(weights),
      state_(state),
      hooks_(std::move(hooks)),
      folder_(checkpoint_folder(options)),
      last_save_(options.now()) {
  if (folder_.empty()) return;
  const auto kept = [log = options.log](const std::string& path, const std::string& why) {
    log.warn("a checkpoint that is no longer wanted could not be removed: " +
             io::printable_url(path) + ": " + why);
  };
  place_ = open_checkpoint_place(
      folder_, opener, options.stop,
      {.saved = hooks_.saved, .kept = kept, .progress = [this](const CheckpointStep& step) {
         tell_progress(step);
       }});
}

void CheckpointKeeper::tell_progress(const CheckpointStep& step) {
  constexpr std::chrono::seconds kPatience{2};
  constexpr double kMega = 1e6;
  hooks_.progress(step);
  if (is_told_ || options_.now() - wait_begin_ < kPatience) return;
  is_told_ = true;
  options_.log.info(fmt::format("saving {}: {:.0f} % of {:.0f} MB are done after {} s",
                                io::printable_url(step.path), 100.0 * step.share,
                                static_cast<double>(step.bytes) / kMega, kPatience.count()));
}

/// Before what may take long.
void CheckpointKeeper::begin_wait() {
  wait_begin_ = options_.now();
  is_told_ = false;
}

bool CheckpointKeeper::has(const std::string& name) const {
  return is_checkpoint(folder_ + "/" + name, opener_);
}

/// Whether the checkpoint at `path` is of the run's best epoch so far.
bool CheckpointKeeper::is_best(const std::string& path) const {
  if (!is_checkpoint(path, opener_)) return false;
  const TrainState state = read_checkpoint_state(path, opener_);
  return state.epoch == state_.best_epoch && (state.run.empty() || state.run == state_.run);
}

void CheckpointKeeper::bring_best(const std::string& from) {
  if (folder_.empty() || !options_.checkpoint.save_best || !state_.best) return;
  std::erase_if(state_.top, [&](const auto& one) { return !has(one.first); });
  if (has("best")) return;
  const std::string beside = from.substr(0, from.find_last_of('/') + 1) + "best";
  if (is_best(beside)) {
    hooks_.before(folder_ + "/best");
    copy_checkpoint(beside, folder_, "best", opener_);
    hooks_.saved(folder_ + "/best");
    options_.log.info(fmt::format("the best epoch so far, {}, is copied from {}", state_.best_epoch,
                                  io::printable_url(beside)));
    return;
  }
  begin_best_anew(state_, "is not beside " + io::printable_url(from), options_.log);
}

bool CheckpointKeeper::due() {
  const auto every = options_.checkpoint.every;
  const auto now = options_.now();
  if (every.count() == 0 || now - last_save_ < bounded(every)) return false;
  last_save_ = now;
  return true;
}

std::string CheckpointKeeper::save(const std::string& name) {
  if (folder_.empty()) return {};
  std::string path = folder_ + "/" + name;
  hooks_.before(path);
  begin_wait();
  place_->save(name, checkpoint_files(state_, weights_.tensors()));
  return path;
}

void CheckpointKeeper::report() {
  if (place_) place_->report();
}

void CheckpointKeeper::finish() {
  begin_wait();
  if (place_) place_->finish();
}

void CheckpointKeeper::save_in_epoch() {
  last_save_ = options_.now();
  if (options_.checkpoint.save_last) last_ = save("last");
}

void CheckpointKeeper::end_epoch(const EpochEvent& event) {
  const bool best = is_best(event);
  if (best) {
    state_.best = monitored_value(state_.monitor, event);
    state_.best_epoch = event.epoch;
  }
  save_top(event);
  if (best && options_.checkpoint.save_best) best_ = save("best");
  if (options_.checkpoint.save_last) last_ = save("last");
  last_save_ = options_.now();
}

bool CheckpointKeeper::is_better(double value, double than) const {
  return less_is_better(state_.monitor) ? value < than : value > than;
}

bool CheckpointKeeper::is_best(const EpochEvent& event) const {
  const double value = monitored_value(state_.monitor, event);
  return std::isfinite(value) && (!state_.best || is_better(value, *state_.best));
}

void CheckpointKeeper::save_top(const EpochEvent& event) {
  const double value = monitored_value(state_.monitor, event);
  const auto limit = static_cast<std::size_t>(options_.checkpoint.top_k);
  if (limit == 0 || folder_.empty() || !std::isfinite(value)) return;
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
  if (!dropped.empty()) place_->remove(dropped);
}

}  // namespace millrace::trainer::detail
