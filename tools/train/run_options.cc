#include "tools/train/run_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "device/device.h"
#include "io/base/error.h"
#include "wds/split.h"

namespace millrace::tools {
namespace {

/// Streams where nobody asked for a number: it may depend on the data, never on the machine.
constexpr int kDefaultWorkers = 4;

int num_workers(std::size_t num_shards, const RunOptions& run) {
  if (run.workers > 0) return run.workers;
  return static_cast<int>(std::min<std::size_t>(num_shards, kDefaultWorkers));
}

}  // namespace

void RunOptions::declare(CLI::App& app) {
  app.add_option("--devices", devices, "How many devices, or which: 8, [5], [0,2]");
  app.add_option("--precision", precision,
                 "bf16: bf16 compute, float32 weights; fp32; bf16-true: bf16 weights too")
      ->check(CLI::IsMember({"bf16", "fp32", "bf16-true", "16", "32"}));
  app.add_option("--batch-size", batch_size, "Samples a device and step")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--workers", workers,
                 "Streams that shards are divided into; 0: 4, or one a shard where there are fewer")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--threads", threads, "Threads that decode; 0: one a core")
      ->check(CLI::Range(0, 1024));
  app.add_option("--prefetch", prefetch, "Batches kept ready")->check(CLI::Range(1, 1 << 16));
}

void RunOptions::check() const { static_cast<void>(device::DeviceSet::parse(devices)); }

trainer::nn::Precision RunOptions::compute_precision() const {
  const bool full = precision == "fp32" || precision == "32";
  return full ? trainer::nn::Precision::kFloat32 : trainer::nn::Precision::kBFloat16;
}

void check_workers(const std::vector<std::string>& shards, const RunOptions& run) {
  wds::check_enough_shards(shards.size(), {.workers = num_workers(shards.size(), run)});
}

pipeline::PipelineOptions make_pipeline_options(const InputOptions& input,
                                                const ModelChoice& choice, const RunOptions& run,
                                                const ReadOptions& read, const Context& context) {
  const bool full = run.compute_precision() == trainer::nn::Precision::kFloat32;
  const ImageOptions& images = choice.images;
  pipeline::PipelineOptions options{
      .shards = input.shards, .faults = read.policy(), .opener = read.opener(), .log = context.log};
  options.split.workers = num_workers(input.shards.size(), run);
  options.shuffle = {
      .shards = input.shuffle > 0, .buffer_samples = input.shuffle, .seed = input.seed};
  options.fields = {
      pipeline::ImageField{
          .transforms = input.training ? images.train_transforms() : images.eval_transforms(),
          .channels = images.channels,
          .dtype = full ? decode::DType::kFloat32 : decode::DType::kBFloat16},
      pipeline::LabelField{.classes = choice.classes}};
  options.batch.size = run.batch_size;
  options.resources.threads = run.threads;
  options.resources.prefetch = run.prefetch;
  check_workers(input.shards, run);
  return options;
}

}  // namespace millrace::tools
