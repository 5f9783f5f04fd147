// OrderOptions: which samples an epoch has, in which order, and how it ends: the options that all
// commands with epochs share. StreamOptions: into how many streams it is divided.
//
//   OrderOptions order = OrderOptions::of_training();
//   order.declare(app);            // --shuffle --order --resampled --epoch-samples ...
//   order.check();                 // what contradicts itself
//   order.apply(seed, options);    // to a pipeline
//
// Threads: a value type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/base/topology.h"
#include "pipeline/options.h"
#include "wds/sample_stream.h"
#include "wds/split.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct StreamOptions {
  /// Streams per process; 0: as many as there are shards for, at most 4.
  int workers = 0;
  /// Streams over all processes; 0: by `workers`.
  int streams = 0;

  /// Declares --workers and --streams.
  void declare(CLI::App& app);
  /// Throws: InvalidArgument if both are given.
  void check() const;
  /// Whether neither says the number of streams.
  bool is_open() const { return workers == 0 && streams == 0; }
  wds::SplitOptions split(std::size_t num_shards, const Topology& topology) const;
};

struct OrderOptions {
  /// Samples in each stream's shuffle buffer; 0: shards are not shuffled either.
  std::int64_t shuffle = 0;
  /// The name of a wds::Order.
  std::string order = "millrace";
  /// As in wds::ShuffleOptions.
  int open_shards = 1;
  std::int64_t shuffle_initial = 100;
  std::int64_t shard_shuffle = 100;
  bool detshuffle = false;
  /// As in pipeline::EpochOptions.
  bool resampled = false;
  std::int64_t epoch_samples = 0;
  std::uint32_t passes = 0;
  /// As in wds::SampleRange.
  std::uint64_t skip = 0;
  std::uint64_t take = 0;
  /// The name of a pipeline::Uneven.
  std::string uneven = "pad";
  bool drop_last = false;
  bool partial = false;

  /// What `train` does by default, and `order` shows.
  static OrderOptions of_training() { return {.shuffle = 5000}; }

  /// Declares all of them.
  void declare(CLI::App& app);
  /// Declares --skip and --take, with `prefix` ("val-") in front of their names.
  void declare_range(CLI::App& app, const std::string& prefix = "");
  /// Declares --uneven --drop-last --partial alone, for epochs that are every sample once.
  void declare_uneven(CLI::App& app);
  /// Throws: InvalidArgument for options that contradict each other.
  void check() const;

  wds::Order wds_order() const;
  /// --uneven drop, or --drop-last.
  bool drops() const { return drop_last || uneven == "drop"; }
  /// Sets the shuffle, what an epoch is and how it ends.
  void apply(std::uint64_t seed, pipeline::PipelineOptions& options) const;
};

}  // namespace millrace::tools
