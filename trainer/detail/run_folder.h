// RunFolder: where a run writes: config.json, metrics.jsonl, rank-N.log, checkpoints/.
//
// Threads: one at a time; line() from every rank's own thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "trainer/metrics_log.h"

namespace millrace::trainer::detail {

class RunFolder {
 public:
  /// Makes the folder and its files; an empty `path` makes nothing and swallows every line.
  /// Throws: Io.
  RunFolder(const std::string& path, const std::string& config_json, int world);

  /// Null without a folder.
  Observer* metrics() { return metrics_.get(); }
  /// A line into the rank's own log.
  void line(int rank, const std::string& text) const;

 private:
  std::unique_ptr<MetricsLog> metrics_;
  std::vector<Log> rank_logs_;
};

}  // namespace millrace::trainer::detail
