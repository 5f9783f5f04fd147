// StuckWatch: bounds what MPI does for all processes at once and cannot be ended from within: its
// start and its end. If one process is stopped or out of reach then, the others wait inside of MPI
// for ever; this one says after two seconds for what, and after the limit ends its process, upon
// which the launcher ends the others.
//
//   StuckWatch watch({.name = "process 1 on node2", .limit = std::chrono::seconds(30), .log =
//   log}); watch.at("MPI_Init has not connected the processes"); MPI_Init_thread(...);
//
// Threads: made and destroyed by one; at() from any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "io/base/log.h"

namespace millrace::trainer::detail {

struct StuckWatchOptions {
  std::string name = {};                    ///< this process's
  std::chrono::milliseconds limit{30'000};  ///< 0: none
  Log log = {};
  /// What else is known, for the line that is the last; empty: nothing.
  std::function<std::string()> details = {};
};

class StuckWatch {
 public:
  explicit StuckWatch(StuckWatchOptions options);
  ~StuckWatch();
  StuckWatch(const StuckWatch&) = delete;
  StuckWatch& operator=(const StuckWatch&) = delete;

  /// What has not happened yet: "process 2 has not answered". The limit counts from the
  /// beginning.
  void at(const std::string& awaited);

 private:
  void watch();
  [[noreturn]] void give_up(const std::string& awaited) const;

  const StuckWatchOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string awaited_;
  bool is_over_ = false;
  std::jthread thread_;
};

}  // namespace millrace::trainer::detail
