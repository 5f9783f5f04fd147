// RunPage: what a run writes for its page (tools/report/page.h): run.json at its start, with
// versions, machine and data, and report.html, which is drawn anew every few minutes and at the
// end.
//
// In a folder on a local disk alone: what is in a bucket is drawn by `millrace report`.
//
// Threads: as trainer::Observer.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "tools/report/run_record.h"
#include "trainer/fit.h"
#include "trainer/observer.h"

namespace millrace::tools {

struct RunPageOptions {
  std::string folder = {};  ///< empty, or a url: nothing is written
  Log log = {};
  RecordJson start = {};  ///< run.json; of a run that is resumed its first start stays
};

class RunPage final : public trainer::Observer {
 public:
  explicit RunPage(RunPageOptions options);

  void on_fit_start() override;
  void on_epoch_start(std::int64_t epoch) override;
  /// Draws the page. What is wrong with it is logged: a run does not fail for its page.
  void draw() const;

 private:
  static constexpr std::chrono::minutes kInterval{2};
  using Clock = std::chrono::steady_clock;

  bool is_on() const;
  void write(const std::string& name, const std::string& text) const;
  void keep_earlier_start();

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

/// run.json: versions, machine, and what `sets` are. Reads pieces of local shards.
RecordJson describe_start(const Topology& topology, const std::vector<PageData>& sets);

}  // namespace millrace::tools
