// RunFolder: the files of a run: config.json, metrics.jsonl, metrics.csv, a TensorBoard event file,
// report.txt, and rank-N.log of each of process 0's replicas. Its checkpoints are in checkpoints/.
//
// Threads: one at a time; line() from every rank's own thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/append_file.h"
#include "trainer/detail/run_files.h"
#include "trainer/observer.h"

namespace millrace::trainer::detail {

class RunFolder {
 public:
  /// Opens the files in `files`; null: nothing is written. Throws: Io.
  RunFolder(std::unique_ptr<RunFiles> files, const std::string& config_json, int devices);

  /// The writers of the files; empty without a folder. Lifetime: this object's.
  std::vector<Observer*> observers() const;
  /// Writes a line to the rank's log. Throws: Io.
  void line(int rank, const std::string& text) const;
  /// Returns when everything is in its place. Throws: Io.
  void finish();

 private:
  std::unique_ptr<RunFiles> files_;
  std::vector<std::unique_ptr<Observer>> writers_;
  std::string host_;
  std::vector<std::unique_ptr<io::AppendFile>> rank_logs_;
};

}  // namespace millrace::trainer::detail
