// RunFolder: the files of a run: config.json, metrics.jsonl, metrics.csv, a TensorBoard event file,
// report.txt, and rank-N.log of each of process 0's replicas. Its checkpoints are in checkpoints/.
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
  /// Creates the folder and its files; with an empty `path` nothing is written. Throws: Io.
  RunFolder(const std::string& path, const std::string& config_json, int devices);

  /// The writers of the files; empty without a folder. Lifetime: this object's.
  std::vector<Observer*> observers() const;
  /// Writes a line to the rank's log.
  void line(int rank, const std::string& text) const;

 private:
  std::vector<std::unique_ptr<Observer>> writers_;
  std::vector<Log> rank_logs_;
};

}  // namespace millrace::trainer::detail
