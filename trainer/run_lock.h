// RunLock: ensures that only one run writes to a folder.
//
// On a disk the file `.lock` in a run's folder is locked while a process trains into it, and holds
// its process number. The kernel frees it when the process ends, however it ends.
//
// In an object store, which has no locks, `.lock` is an object that is created if there is none, is
// written anew every 15 s, and is removed at the end. One that a killed run left is taken over: at
// once if its process ran on this machine and is gone; else after 60 s without a sign of life. A
// run that finds another's lock in place of its own, because it was suspended for longer, fails.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/opener.h"

namespace millrace::trainer {

struct RunLockOptions {
  /// Of a store; borrowed. Null: an io::UrlOpener.
  const io::Opener* opener = nullptr;
  /// Ends the wait for another run's sign of life.
  std::stop_token stop = {};
  Log log = {};
  /// Of a store's lock: the time between signs of life, and without one until it is taken over.
  Clock::Duration beat = std::chrono::seconds(15);
  Clock::Duration expiry = std::chrono::seconds(60);
};

class RunLock {
 public:
  /// One kind of lock. Throws: as RunLock.
  class Holder {
   public:
    virtual ~Holder() = default;
    virtual void check_in_place() const = 0;
  };

  /// Locks `folder`, a path or a store's url; on a disk creates it if it is missing. Throws:
  /// InvalidArgument if another run has it, with its process number; Io, Cancelled.
  explicit RunLock(const std::string& folder, const RunLockOptions& options = {});

  /// Throws: Io if the folder has been deleted or moved since it was locked, or another run has
  /// taken it over.
  void check_in_place() const { holder_->check_in_place(); }

 private:
  std::unique_ptr<Holder> holder_;
};

/// Throws: InvalidArgument if another run has the local `folder`, which may be missing. Creates
/// nothing.
void check_not_running(const std::string& folder);

}  // namespace millrace::trainer
