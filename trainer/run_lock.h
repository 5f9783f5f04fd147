// RunLock: ensures that only one run writes to a folder.
//
// The file `.lock` in a run's folder is locked while a process trains into it, and holds its
// process number. The kernel frees it when the process ends, however it ends.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>

#include "io/base/file_lock.h"

namespace millrace::trainer {

class RunLock {
 public:
  /// Creates `folder` if it is missing, and locks it. Throws: InvalidArgument if another run has
  /// it, with its process number; Io.
  explicit RunLock(const std::string& folder);

  /// Throws: Io if the folder has been deleted or moved since it was locked.
  void check_in_place() const;

 private:
  std::string folder_;
  std::unique_ptr<FileLock> lock_;
};

/// Throws: InvalidArgument if another run has `folder`, which may be missing. Creates nothing.
void check_not_running(const std::string& folder);

}  // namespace millrace::trainer
