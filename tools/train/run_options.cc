#include "tools/train/run_options.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>

#include "decode/decoded_cache.h"
#include "device/device.h"
#include "io/base/error.h"
#include "io/base/machine.h"
#include "io/base/suggest.h"
#include "io/base/text.h"
#include "pipeline/epoch_length.h"
#include "pipeline/fake_data.h"
#include "pipeline/slots.h"
#include "tools/help.h"
#include "tools/option_settings.h"
#include "tools/parse.h"
#include "tools/shown_counts.h"
#include "tools/values.h"
#include "wds/split.h"

namespace millrace::tools {
namespace {

/// Fake data is divided as so many shards.
constexpr int kFakeShards = 4;
/// Of each device.
constexpr std::int64_t kMaxBatch = 1 << 20;
constexpr std::string_view kAll = "all";

wds::SplitOptions split_of(std::size_t num_shards, const RunOptions& run, int saved_streams = 0) {
  if (saved_streams > 0 && saved_streams % run.topology.processes == 0)
    return {.topology = run.topology, .streams = saved_streams};
  return run.streams.split(num_shards, run.topology);
}

/// "auto" is one device with all cores; a list may be written without brackets.
std::string settle_devices(std::string& devices) {
  const std::size_t colon = devices.find(':');
  const std::size_t begin = colon == std::string::npos ? 0 : colon + 1;
  if (devices == "auto")
    devices = "1";
  else if (devices.find(',') != std::string::npos && devices[begin] != '[')
    devices = devices.substr(0, begin) + "[" + devices.substr(begin) + "]";
  return {};
}

/// Applies --tolerate-truncated to every image.
void tolerate_truncated(std::vector<pipeline::FieldSpec>& fields) {
  for (pipeline::FieldSpec& field : fields) {
    if (auto* image = std::get_if<pipeline::ImageField>(&field)) image->tolerate_truncated = true;
    auto* paired = std::get_if<pipeline::PairedImagesField>(&field);
    if (paired == nullptr) continue;
    for (pipeline::ImageField& member : paired->members) member.tolerate_truncated = true;
  }
}

}  // namespace

void RunOptions::declare(CLI::App& app) {
  app.option_defaults()->group("Devices and threads");
  app.add_option("--devices", devices,
                 "Number of devices, or a list of them: 8, [5], 0,2; auto: one, with all cores. Of "
                 "an accelerator, by its PJRT plugin: tpu, cuda:2, cuda:[0,3], rocm, xla-cpu:8")
      ->transform(CLI::Validator(settle_devices, ""))
      ->type_name("N|LIST")
      ->check(in_short_help())
      ->check(own_of_process());
  app.add_option("--accelerator", accelerator,
                 "The kind of processor, apart from its number: cpu, tpu, cuda, ...; auto: what "
                 "--devices names")
      ->type_name("NAME")
      ->check(own_of_process());
  plugins.declare_for_run(app);
  precision.declare(app);
  add_count_of(app, "--batch-size", batch, kAll, 1, std::int64_t{1} << 40,
               "Samples per device in a step; N/all: of all devices of all processes together")
      ->type_name("N")
      ->check(in_short_help())
      ->check(may_change());
  streams.declare(app);
  app.add_option("--threads", threads, "Decoding threads; 0: one per core")
      ->transform(whole_number(0, kMaxThreads))
      ->check(in_short_help())
      ->check(own_of_process());
  app.add_option("--prefetch", prefetch, "Batches that are prepared ahead of the training step")
      ->transform(whole_number(1, 1 << 16))
      ->check(own_of_process());
  app.add_flag("--no-autotune", no_autotune,
               "Do not adapt read-ahead and threads to what the model waits for; the order of the "
               "samples is the same with and without")
      ->check(own_of_process());
}

void RunOptions::declare_cache(CLI::App& app) {
  app.option_defaults()->group("Devices and threads");
  auto* cache =
      app.add_option(
             "--cache-decoded", cache_decoded,
             "Keep decoded pictures in a cache of this size in memory, so that each is decoded "
             "once: 2GB, 500MiB; batches are the same with and without [none are kept]")
          ->type_name("SIZE")
          ->default_str("")
          ->check(own_of_process());
  app.add_option("--cache-decoded-in", cache_decoded_in,
                 "Keep them in a file in this folder instead, which is deleted with the process")
      ->transform(output_path())
      ->needs(cache)
      ->check(existing_folder())
      ->type_name("DIR")
      ->check(own_of_process());
}

void RunOptions::open_cache(const Log& log) {
  if (cache_decoded.empty()) return;
  decoded = std::make_shared<decode::DecodedCache>(
      decode::DecodedCacheOptions{.bytes = parse_bytes("--cache-decoded", cache_decoded),
                                  .folder = cache_decoded_in,
                                  .log = log});
}

DeviceChoice RunOptions::device_choice() const { return DeviceChoice::parse(accelerator, devices); }

void RunOptions::check() const {
  if (!cache_decoded.empty()) static_cast<void>(parse_bytes("--cache-decoded", cache_decoded));
  device_choice().check(plugins);
  require(batch.has_unit || batch.number <= kMaxBatch,
          fmt::format("--batch-size {}: at most {} for each device", batch.number, kMaxBatch));
}

void RunOptions::settle(const Topology& where) {
  topology = where;
  static_cast<void>(
      wds::num_streams({.topology = topology, .workers = 1, .streams = streams.total()}));
  const std::int64_t number = batch.number;
  const std::int64_t replicas = batch.has_unit ? topology.world_size() : 1;
  batch_size = number / replicas;
  if (batch_size * replicas == number) return;
  const std::int64_t above = (batch_size + 1) * replicas;
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("--batch-size {}: {} x {} devices cannot share it evenly: {}{}", batch.text(kAll),
                  counted(static_cast<std::uint64_t>(topology.processes), "process"),
                  topology.devices,
                  batch_size > 0 ? fmt::format("{} or ", batch_size * replicas) : "", above));
}

decode::DType RunOptions::input_dtype() const {
  return device_choice().takes_bytes() ? decode::DType::kUInt8 : precision.input();
}

void check_workers(const std::vector<std::string>& specs, const RunOptions& run,
                   const ReadOptions& read, const SampleOrder& order) {
  if (!read.lists.are_known(specs) || order.epochs.resampled) return;
  const std::vector<std::string> shards = read.lists.urls(specs);
  read.check_number(shards, split_of(shards.size(), run), order.shuffle.order);
}

pipeline::PipelineOptions make_pipeline_options(const InputOptions& input,
                                                const ModelChoice& choice, const RunOptions& run,
                                                const ReadOptions& read,
                                                const CommandContext& context) {
  const decode::DType dtype = run.input_dtype();
  pipeline::PipelineOptions options;
  options.shards = input.shards;
  options.joins = input.joins;
  if (input.mix) options.mix = *input.mix;
  options.mixup = input.mixup;
  options.faults = read.policy();
  options.opener = read.network.opener();
  options.log = context.log;
  options.trace = context.trace;
  options.split =
      split_of(input.fake > 0 ? kFakeShards : input.shards.size(), run, input.saved.streams);
  input.order.apply(input.seed, options);
  const int seeded_for = input.saved.processes;
  if (pipeline::seed_processes(options) > 0 && seeded_for > 0 &&
      wds::num_streams(options.split) % seeded_for == 0)
    options.shuffle.seed_processes = seeded_for;
  options.fields = input.targets
                       ? choice.task.fields(choice.images, choice.classes, dtype, input.training)
                       : choice.task.inputs(choice.images, dtype);
  if (read.faults.tolerate_truncated) tolerate_truncated(options.fields);
  options.batch.size = run.batch_size;
  options.resources.threads = run.threads;
  options.resources.prefetch = run.prefetch;
  options.resources.autotune.on = !run.no_autotune;
  options.resources.decoded = run.decoded;
  if (input.fake > 0)
    return pipeline::with_fake_data(
        std::move(options),
        {.samples = input.fake, .classes = std::max<std::int64_t>(1, choice.classes)});
  options.indexed = !read.index.no_index;
  options.scan = !read.index.no_scan;
  options.scan_cache = wds::default_scan_cache();
  options =
      with_shown_counts(std::move(options), run.topology.process == 0 ? context.terminal : nullptr);
  pipeline::check_ranges(options);
  if (!options.found.counts && !input.order.epochs.resampled)
    wds::check_enough_shards(input.shards.size(), options.split);
  return options;
}

}  // namespace millrace::tools
