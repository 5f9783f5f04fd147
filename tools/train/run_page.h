// RunPage: what a run writes for its page (tools/report/page.h): run.json at its start, with
// versions, machine, model, data and sessions, and report.html, which is drawn anew every few
// minutes and at the end.
//
// The page is drawn into a folder on a local disk alone: what is in a bucket is drawn by `millrace
// report`.
//
// Threads: as trainer::Observer.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "tools/report/run_record.h"
#include "tools/train/run_folder_writer.h"
#include "trainer/cluster.h"
#include "trainer/fit.h"
#include "trainer/observer.h"

namespace millrace::tools {

struct RunPageOptions {
  RunFolderWriter* files = nullptr;  ///< borrowed; null: nothing is written
  Log log = {};
  RecordJson start = {};  ///< run.json; of a run that is resumed the earlier sessions stay
};

class RunPage final : public trainer::Observer {
 public:
  explicit RunPage(RunPageOptions options);

  void on_fit_start() override;
  void on_epoch_start(std::int64_t epoch) override;
  /// Keeps the memory that this process has taken: a run that is killed has told of it, too.
  void on_epoch_end(const trainer::EpochEvent& event) override;
  /// Keeps what the session's processes have taken.
  void keep_memory(const std::vector<std::uint64_t>& peak_bytes);
  /// Draws the page. What is wrong with it is logged: a run does not fail for its page.
  void draw() const;

 private:
  static constexpr std::chrono::minutes kInterval{2};
  using Clock = std::chrono::steady_clock;

  void write_start() const;
  void keep_earlier_sessions();
  void keep_of_session(const char* name, const RecordJson& value);

  RunPageOptions options_;
  bool has_started_ = false;  ///< then the folder is this run's
  Clock::time_point next_ = Clock::now() + kInterval;
};

/// The specs of a set and its feed, which may be null.
struct PageData {
  const char* name;
  std::vector<std::string> specs;
  const trainer::Feed* feed = nullptr;
  std::int64_t samples =
      0;  ///< of an epoch, of all processes, with those that faults cost; 0: unknown
};

/// What a session is, and what it trains.
struct PageStart {
  std::vector<std::string> words;  ///< of the command, the program's own among them
  Topology topology;
  std::string model;
  std::int64_t parameters = 0;
};

/// What each process has had in memory at most. A collective.
std::vector<std::uint64_t> peak_memory_of_all(trainer::Cluster& cluster);

/// run.json: versions, machine, model, the session, and what `sets` are. Reads pieces of local
/// shards.
RecordJson describe_start(const PageStart& start, const std::vector<PageData>& sets);

}  // namespace millrace::tools
