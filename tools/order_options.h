// OrderOptions: which samples an epoch has, in which order, and how it ends: the options that all
// commands with epochs share. StreamOptions: into how many streams it is divided.
//
//   OrderOptions order(wds::orders::kUsualBuffer);
//   order.declare(app);                     // --order --resampled --epoch-samples ...
//   order.settle();                         // and what contradicts itself
//   order.chosen().apply(seed, options);    // to a pipeline
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/base/topology.h"
#include "pipeline/options.h"
#include "tools/component_option.h"
#include "tools/values.h"
#include "wds/orders.h"
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

/// What is chosen.
struct SampleOrder {
  /// buffer_samples 0: shards are not shuffled either. The seed is set by apply().
  wds::ShuffleOptions shuffle = {};
  pipeline::EpochOptions epochs = {};
  wds::SampleRange range = {};
  pipeline::Uneven uneven = pipeline::Uneven::kPad;
  bool fill = false;

  /// Sets the shuffle, what an epoch is and how it ends.
  void apply(std::uint64_t seed, pipeline::PipelineOptions& options) const;
};

class OrderOptions {
 public:
  /// `buffer`: samples of the shuffle's, unless one is given.
  explicit OrderOptions(std::int64_t buffer = 0) : buffer_(buffer) {}

  static const millrace::Table& table() { return wds::standard_orders(); }
  /// Declares all of them.
  void declare(CLI::App& app);
  /// Declares --skip-samples and --take-samples, with `prefix` ("val-") in front of their names.
  void declare_range(CLI::App& app, const std::string& prefix = "");
  /// Declares --where, likewise, for epochs in no order of their own: what is kept is drawn by a
  /// permutation. Not beside declare(), which has it as a parameter of --order.
  void declare_where(CLI::App& app, const std::string& prefix = "");
  /// Declares --uneven alone, for epochs that are every sample once.
  void declare_uneven(CLI::App& app);
  /// Once the words are parsed. Throws: InvalidArgument for options that contradict each other.
  void settle();

  const SampleOrder& chosen() const { return chosen_; }

 private:
  void check() const;
  void check_expressions() const;

  std::int64_t buffer_;
  std::optional<ComponentOption> shuffle_ = {};  ///< --order, where it is declared
  std::string prefix_ = {};                      ///< of --where, where that is declared alone
  SampleOrder chosen_ = {};
};

}  // namespace millrace::tools
