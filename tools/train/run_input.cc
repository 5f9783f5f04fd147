#include "tools/train/run_input.h"

#include <utility>

#include "pipeline/epoch_length.h"

namespace millrace::tools {
namespace {

/// Overfitting uses the same samples every epoch, without randomness.
InputOptions training_input(const RunInputOptions& options) {
  const bool overfits = options.limits.overfit_batches > 0;
  return {.shards = train_shards(options),
          .fake = options.data.fake,
          .shuffle = overfits ? 0 : options.data.shuffle,
          .seed = options.seed,
          .order = options.read.order(),
          .training = !overfits,
          .epoch_samples = options.data.epoch_samples};
}

InputOptions validation_input(const RunInputOptions& options) {
  if (options.limits.overfit_batches > 0) return training_input(options);
  const auto specs = options.data.val_specs();
  if (specs.empty()) return {};
  return {.shards = options.read.shards(specs)};
}

}  // namespace

std::vector<std::string> train_shards(const RunInputOptions& options) {
  if (options.data.fake > 0) return {};
  return options.read.shards(options.data.train_specs());
}

RunInput::RunInput(const RunInputOptions& options, const device::DeviceSet& devices,
                   const Context& context) {
  const auto replicas = static_cast<int>(devices.size());
  const auto pipeline = [&](const InputOptions& input) {
    return make_pipeline_options(input, options.choice, options.run, options.read, context);
  };
  auto train = pipeline(training_input(options));
  train_samples_ = pipeline::samples_per_epoch(train).value_or(0);
  std::size_t num_indexes = num_indexes_of(train);
  train_.emplace(std::move(train), devices);
  limited_train_.emplace(*train_, options.limits.train_batches, replicas);
  if (const InputOptions input = validation_input(options); !input.is_empty()) {
    auto val = pipeline(input);
    num_indexes += num_indexes_of(val);
    val_.emplace(std::move(val), devices);
    limited_val_.emplace(*val_, options.limits.val_batches, replicas);
  }
  log_balance(num_indexes, context.log);
}

}  // namespace millrace::tools
