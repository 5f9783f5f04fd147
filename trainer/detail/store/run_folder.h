// RunFolder: the files of a run: config.json, metrics.jsonl, metrics.csv, a TensorBoard event file,
// report.txt, and rank-N.log of each replica, which its own process writes, into the folder of this
// name on its own host where the hosts do not share it. Its checkpoints are in checkpoints/.
//
// Threads: one at a time; line() from every rank's own thread.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "io/append_file.h"
#include "io/base/log.h"
#include "io/base/topology.h"
#include "io/opener.h"
#include "trainer/observer.h"
#include "trainer/run_files.h"

namespace millrace::trainer::detail {

/// Makes room for a new run in `folder`, which another one may have used: what that one wrote goes
/// to `folder`/replaced-N, or in a store, where nothing is renamed, is removed. A line in `log`
/// says so. Requires: the folder is locked. Throws: Io.
void set_earlier_run_aside(const std::string& folder, const io::Opener& opener, const Log& log,
                           const std::stop_token& stop);

/// Whether a run's metrics are in `folder`, a path or a store's url. Throws: network faults.
bool has_metrics(const std::string& folder, const io::Opener& opener);

class RunFolder {
 public:
  /// Opens the files in `files`; null: nothing is written. A process other than 0 has only the logs
  /// of its ranks. Throws: Io.
  RunFolder(std::unique_ptr<RunFiles> files, const std::string& config_json,
            const Topology& topology);

  /// The writers of the files; empty without a folder. Lifetime: this object's.
  std::vector<Observer*> observers() const;
  /// Writes a line to the rank's log. Throws: Io.
  void line(int rank, const std::string& text) const;
  /// Returns when everything is in its place. Throws: Io.
  void finish();

 private:
  void open_run_logs(const std::string& config_json);

  std::unique_ptr<RunFiles> files_;
  std::vector<std::unique_ptr<Observer>> writers_;
  std::string host_;
  int first_rank_;
  std::vector<std::unique_ptr<io::AppendFile>> rank_logs_;
};

}  // namespace millrace::trainer::detail
