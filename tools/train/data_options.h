// DataOptions: which shards a run trains and evaluates on, and in which order.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/mixup.h"
#include "tools/mix_words.h"
#include "tools/order_options.h"
#include "tools/read_options.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct DataOptions {
  std::vector<std::string> train = {};
  std::vector<std::string> val = {};
  /// What completes them.
  std::vector<std::string> join = {};
  std::vector<std::string> val_join = {};
  /// Number of folds (0: none), and which of them is used for evaluation.
  int folds = 0;
  int fold = 0;
  OrderOptions order = OrderOptions(wds::orders::kUsualBuffer);
  /// What is skipped, taken and kept of the samples to evaluate on.
  OrderOptions val_order = OrderOptions();
  MixWords mix = {};
  /// How the pictures of a training batch are mixed with one another.
  pipeline::MixUpOptions mixup = {};
  /// Samples per epoch of synthetic data; 0: real data.
  std::int64_t fake = 0;

  void declare(CLI::App& app);
  /// Once the words are parsed. Throws: InvalidArgument, and as ReadOptions::check().
  void settle(ReadOptions& read);

  /// Without weights. With folds: all except `fold`. Empty for fake data.
  std::vector<std::string> train_specs() const;
  /// With folds and no --val: only `fold`.
  std::vector<std::string> val_specs() const;

 private:
  void check_folds() const;
  void check_mix() const;
};

}  // namespace millrace::tools
