// DataOptions: which shards a run trains and evaluates on, and in what order.
//
// Threads: as a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/read_options.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct DataOptions {
  std::vector<std::string> train = {};
  std::vector<std::string> val = {};
  /// Folds, and which of them is kept for evaluation; 0: no folds.
  int folds = 0;
  int fold = 0;
  /// Samples in each stream's buffer; 0: not even shards are shuffled.
  std::int64_t shuffle = 5000;
  std::int64_t epoch_samples = 0;
  /// Samples of an epoch that come from nowhere; 0: real ones.
  std::int64_t fake = 0;

  void declare(CLI::App& app);
  /// Throws: InvalidArgument, and as ReadOptions::check().
  void check(const ReadOptions& read) const;

  /// With folds: all but `fold`. Empty for fake data.
  std::vector<std::string> train_specs() const;
  /// With folds and no --val: `fold` alone.
  std::vector<std::string> val_specs() const;

 private:
  void check_folds() const;
};

}  // namespace millrace::tools
