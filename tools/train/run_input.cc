#include "tools/train/run_input.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/opener.h"
#include "pipeline/epoch_length.h"
#include "tools/train/evaluation_files.h"

namespace millrace::tools {
namespace {

/// Overfitting uses the same samples every epoch, without randomness.
InputOptions training_input(const TrainCommandOptions& options) {
  const bool overfits = options.limits.overfit_batches > 0;
  SampleOrder order = options.data.order.chosen();
  if (overfits) order.shuffle.buffer_samples = 0;
  return {.shards = options.train_shards(),
          .mix = std::make_shared<const pipeline::MixOptions>(
              options.data.mix.sets(options.data.train, options.read.lists)),
          .joins = options.train_joins(),
          .fake = options.data.fake,
          .order = order,
          .mixup = overfits ? pipeline::MixUpOptions() : options.data.mixup,
          .seed = options.seed,
          .training = !overfits,
          .saved = options.saved};
}

InputOptions validation_input(const TrainCommandOptions& options) {
  if (options.limits.overfit_batches > 0) return training_input(options);
  const auto specs = options.data.val_specs();
  if (specs.empty()) return {};
  return {.shards = options.read.lists.urls(specs),
          .joins = options.read.lists.joined(options.data.val_join, specs),
          .order = options.data.val_order.chosen()};
}

/// The training samples, their pictures neither cropped nor flipped at random.
pipeline::PipelineOptions start_options(pipeline::PipelineOptions options,
                                        const TrainCommandOptions& run) {
  ImageOptions images = run.choice.images;
  if (images.has_eval_size()) images.eval_resize = 0;  // which is that size's
  images.eval_size = {};
  for (pipeline::FieldSpec& field : options.fields)
    if (auto* image = std::get_if<pipeline::ImageField>(&field))
      image->transforms = images.transforms(false, image->dtype);
  options.mixup = {};
  return options;
}

/// A process without a sample of its own would only fill the others' steps.
void check_enough_samples(const pipeline::PipelineOptions& options) {
  const auto samples = pipeline::global_samples_per_epoch(options);
  const int processes = options.split.topology.processes;
  if (!samples || *samples >= processes) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} for {}: start no more processes than there are samples",
                          counted(static_cast<std::uint64_t>(*samples), "sample"),
                          counted(static_cast<std::uint64_t>(processes), "process")));
}

/// What `make` makes; that nothing is there is said of --val.
template <typename Make>
pipeline::PipelineOptions of_validation(const DataOptions& data, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    std::string name = "--val";
    for (const std::string& spec : data.val_specs()) name += " " + io::printable_url(spec);
    throw Error(error.code(), name + ": " + error.message(), error.where());
  }
}

}  // namespace

RunInput::RunInput(const TrainCommandOptions& options, const OpenerHooks& hooks,
                   const device::DeviceSet& devices, const CommandContext& context) {
  const auto pipeline = [&](const InputOptions& input, const ModelChoice& choice) {
    auto made = make_pipeline_options(input, choice, options.run, options.read, context);
    if (hooks.on_read) made.opener = std::make_shared<MeteredOpener>(made.opener, hooks);
    return made;
  };
  auto train = pipeline(training_input(options), options.choice);
  check_enough_samples(train);
  train_samples_ = pipeline::global_samples_per_epoch(train).value_or(0);
  std::size_t num_indexes = train.found.num_indexed();
  if (options.data.fake == 0 && options.choice.takes_start_samples())
    start_.emplace(start_options(train, options), devices);
  train_.emplace(std::move(train), devices);
  metered_train_.emplace(*train_, options.read.network.reads_network(options.train_shards()));
  limited_train_.emplace(*metered_train_, options.limits.train_batches, options.run.topology);
  if (const InputOptions input = validation_input(options); !input.is_empty()) {
    auto val = of_validation(options.data,
                             [&] { return pipeline(input, options.choice.for_evaluation()); });
    num_indexes += val.found.num_indexed();
    val_samples_ = pipeline::global_samples_per_epoch(val).value_or(0);
    validation_shards_ = val.shards;
    val.fields.emplace_back(place_field(val.shards));
    val_.emplace(std::move(val), devices);
    metered_val_.emplace(*val_);
    limited_val_.emplace(*metered_val_, options.limits.val_batches, options.run.topology);
  }
  log_balance(num_indexes, context.log);
}

}  // namespace millrace::tools
