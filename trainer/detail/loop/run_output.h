// RunOutput: what a run lets out: its folder, which it locks, the files in it, its observers, and
// the lines of its progress.
//
//   RunOutput output(processes, options, opener, observers);
//   output.lock_if_there();          // process 0, before anything is read
//   output.lock();                   // once nothing can be refused any more
//   output.open_files();
//   output.tell(&Observer::on_fit_start);
//
// Threads: one at a time; log_step() from every rank's own thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/opener.h"
#include "trainer/detail/collectives/processes.h"
#include "trainer/detail/store/run_folder.h"
#include "trainer/events.h"
#include "trainer/observer.h"
#include "trainer/run_lock.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

class RunOutput {
 public:
  /// All borrowed.
  RunOutput(Processes& processes, const TrainOptions& options, const io::Opener& opener,
            const std::vector<Observer*>& observers);

  /// Locks the run's folder if there is one already. A store has no folders: always. Throws: as
  /// RunLock.
  void lock_if_there();
  /// Locks the folder, which it creates, unless it is locked.
  void lock();
  bool is_locked() const { return lock_.has_value(); }
  /// Throws: Io if the folder that was locked has been deleted or moved.
  void check_in_place() const;

  /// Opens process 0's files, whose writers are told from here on. Throws: Io.
  void open_files();
  /// Opens the logs of the other processes' ranks, on every process at once. A fault is a warning.
  void open_rank_logs();
  /// Returns when every process's files are in their place. Throws: Io, on every process.
  void finish();

  template <typename Member, typename... Args>
  void tell(Member member, const Args&... args) const {
    for (Observer* observer : observers_) (observer->*member)(args...);
  }
  /// A line of the run's progress, if they are wanted.
  void say(const std::string& line) const;
  /// Tells the observers, and the log of this process's first rank, of the fault that ends the run.
  /// What fails meanwhile is a warning.
  void fail(const FaultEvent& event) const;
  /// The line of a rank's step; from rank 0 for the observers too.
  void log_step(const StepEvent& event) const;

 private:
  Processes& processes_;
  const TrainOptions& options_;
  const io::Opener& opener_;
  std::vector<Observer*> observers_;
  std::optional<RunLock> lock_;  ///< before what writes: released after it
  std::optional<RunFolder> folder_;
};

}  // namespace millrace::trainer::detail
