// RunInput: a run's two feeds, made from its options: real or fake, complete or limited.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/metered_opener.h"
#include "tools/train/limited_feed.h"
#include "tools/train/metered_feed.h"
#include "tools/train/train_command_options.h"
#include "trainer/feed.h"

namespace millrace::tools {

class RunInput {
 public:
  /// Of settled options. `hooks` are called for what the feeds read; `devices` is borrowed. Throws:
  /// InvalidArgument for more processes than samples; as opening.
  RunInput(const TrainCommandOptions& options, const OpenerHooks& hooks,
           const device::DeviceSet& devices, const CommandContext& context);

  trainer::Feed& train() { return *limited_train_; }
  /// Samples of a training epoch, of all processes; 0 if unknown.
  std::int64_t train_samples() const { return train_samples_; }
  /// Of an evaluation, likewise.
  std::int64_t val_samples() const { return val_samples_; }
  /// The training samples as evaluation sees them; null if no start values are taken from them.
  trainer::Feed* start() { return start_ ? &*start_ : nullptr; }
  /// Null if there is no validation.
  trainer::Feed* validation() { return limited_val_ ? &*limited_val_ : nullptr; }
  /// Its shards; empty where it has none.
  const std::vector<std::string>& validation_shards() const { return validation_shards_; }
  /// What they hold now, for whoever watches the run. Threads: any.
  std::optional<trainer::InputState> train_state() const { return metered_train_->state(); }
  std::optional<trainer::InputState> validation_state() const {
    return metered_val_ ? metered_val_->state() : std::nullopt;
  }

 private:
  std::int64_t train_samples_ = 0;
  std::int64_t val_samples_ = 0;
  std::vector<std::string> validation_shards_;
  std::optional<trainer::LoaderFeed> train_;
  std::optional<trainer::LoaderFeed> start_;
  std::optional<trainer::LoaderFeed> val_;
  std::optional<MeteredFeed> metered_train_;
  std::optional<MeteredFeed> metered_val_;
  std::optional<LimitedFeed> limited_train_;
  std::optional<LimitedFeed> limited_val_;
};

}  // namespace millrace::tools
