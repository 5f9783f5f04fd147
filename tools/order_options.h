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
#include "tools/values.h"
#include "wds/sample_stream.h"
#include "wds/split.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct StreamOptions {
  /// 12, over all processes, or 4/process; 0: as many for each process as there are shards for, at
  /// most 4.
  CountOf streams = {};

  /// Declares --streams.
  void declare(CLI::App& app);
  bool is_open() const { return streams.number == 0; }
  /// Over all processes; 0: open, or by the number of processes.
  int total() const;
  wds::SplitOptions split(std::size_t num_shards, const Topology& topology) const;
};

struct OrderOptions {
  /// buffer_samples 0: shards are not shuffled either. The seed is set by apply().
  wds::ShuffleOptions shuffle = {};
  pipeline::EpochOptions epochs = {};
  wds::SampleRange range = {};
  pipeline::Uneven uneven = pipeline::Uneven::kPad;

  /// What `train` does by default, and `order` shows.
  static OrderOptions of_training() { return {.shuffle = {.buffer_samples = 5000}}; }

  /// Declares all of them.
  void declare(CLI::App& app);
  /// Declares --skip and --take, with `prefix` ("val-") in front of their names.
  void declare_range(CLI::App& app, const std::string& prefix = "");
  /// Declares --uneven alone, for epochs that are every sample once.
  void declare_uneven(CLI::App& app);
  /// Throws: InvalidArgument for options that contradict each other.
  void check() const;

  /// Sets the shuffle, what an epoch is and how it ends.
  void apply(std::uint64_t seed, pipeline::PipelineOptions& options) const;
};

}  // namespace millrace::tools
