// RunFolder: where a run writes: config.json, metrics.jsonl, metrics.csv, a TensorBoard event file,
// report.txt, rank-N.log of each of process 0's replicas; its checkpoints lie in checkpoints/.
//
// Threads: one at a time; line() from every rank's own thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "trainer/observer.h"

namespace millrace::trainer::detail {

class RunFolder {
 public:
  /// Makes the folder and its files; an empty `path` makes nothing and swallows every line.
  /// Throws: Io.
  RunFolder(const std::string& path, const std::string& config_json, int devices);

  /// What writes the files; empty without a folder. Borrowed.
  std::vector<Observer*> observers() const;
  /// A line into the rank's own log.
  void line(int rank, const std::string& text) const;

 private:
  std::vector<std::unique_ptr<Observer>> writers_;
  std::vector<Log> rank_logs_;
};

}  // namespace millrace::trainer::detail
