// Options shared by `train` and `eval`: devices, precision, batch size, and the input pipeline.
//
// Threads: value types.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/base/topology.h"
#include "pipeline/options.h"
#include "tools/command.h"
#include "tools/order_options.h"
#include "tools/plugins/run_devices.h"
#include "tools/read_options.h"
#include "tools/train/model_choice.h"
#include "tools/train/precision_option.h"

namespace millrace::tools {

struct RunOptions {
  std::string devices = "1";
  std::string accelerator = "auto";  ///< another way to say what `devices` are
  PluginOptions plugins = {};
  PrecisionOption precision = {};
  CountOf batch = {.number = 64};  ///< of each device, or 512/all
  std::int64_t batch_size = 64;    ///< of each device; set by settle()
  StreamOptions streams = {};
  int threads = 0;
  int prefetch = 4;
  bool no_autotune = false;
  std::string cache_decoded = {};     ///< a size; empty: none
  std::string cache_decoded_in = {};  ///< a folder for it; empty: in memory
  /// Shared by a run's inputs; opened by open_cache().
  std::shared_ptr<decode::DecodedCache> decoded = nullptr;
  /// The processes that share the work: not an option, but what this one is started as.
  Topology topology = {};

  /// --devices --accelerator --plugin --plugin-path --plugin-timeout --precision --batch-size
  /// --streams --threads --prefetch
  /// --no-autotune.
  void declare(CLI::App& app);
  /// Declares --cache-decoded and --cache-decoded-in, for commands that take pictures more than
  /// once; after declare().
  void declare_cache(CLI::App& app);
  /// Throws: as decode::DecodedCache.
  void open_cache(const Log& log);
  /// Throws: InvalidArgument for impossible devices, as check().
  DeviceChoice device_choice() const;
  void check() const;
  /// Takes over where this process stands. Throws: InvalidArgument for a batch of all devices or
  /// streams that the processes cannot share evenly.
  void settle(const Topology& where);
  /// Of the images that the loader brings to the model.
  decode::DType input_dtype() const;
};

/// What a run that is resumed has of the one before.
struct SavedStreams {
  /// Their number, where the options leave it open; 0: none.
  int streams = 0;
  /// wds::ShuffleOptions::seed_processes.
  int processes = 0;
};

/// One of a run's two inputs.
struct InputOptions {
  std::vector<std::string> shards;
  std::shared_ptr<const pipeline::MixOptions> mix = nullptr;  ///< null: none
  std::vector<std::vector<std::string>> joins = {};           ///< that complete `shards`
  std::int64_t fake = 0;  ///< number of synthetic samples, instead of shards
  SampleOrder order = {};
  pipeline::MixUpOptions mixup = {};
  std::uint64_t seed = 0;
  bool training = false;
  bool targets = true;  ///< false: only the images
  /// Of the run that is resumed.
  SavedStreams saved = {};

  bool is_empty() const { return shards.empty() && fake == 0; }
};

/// The pipeline of image and targets for `choice`. It does not use the context's stop: the trainer
/// ends it after the step in flight. Reads the indexes' counts, and scans shards that have no
/// index. Throws: InvalidArgument if whole shards are divided and there are fewer than streams.
pipeline::PipelineOptions make_pipeline_options(const InputOptions& input,
                                                const ModelChoice& choice, const RunOptions& run,
                                                const ReadOptions& read,
                                                const CommandContext& context);

/// Throws: InvalidArgument if the shards of `specs` are too few for the requested workers, as far
/// as that is known before anything is opened.
void check_workers(const std::vector<std::string>& specs, const RunOptions& run,
                   const ReadOptions& read, const SampleOrder& order = {});

}  // namespace millrace::tools
