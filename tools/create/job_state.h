// JobState: marks a `create` that is running or was interrupted, so that the same command can
// continue it.
//
// A hidden file next to the shards: {"millrace_create": 1, "fingerprint": "..."}, where the
// fingerprint is a hash of all options and inputs that the shards' bytes depend on. It is locked
// while a process (`create` or `reshard`) writes the set, and deleted when the set is complete.
//
//   JobState state(JobState::path_of(pattern));
//   if (!state.is_of(fingerprint)) state.begin(fingerprint);
//   state.finish();
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>

#include "io/base/file_lock.h"

namespace millrace::tools {

class JobState {
 public:
  /// The path of the state of the set "out/train-%06d.tar": out/.train-%06d.create.json.
  static std::string path_of(const std::string& pattern);
  /// Whether there is a file at `path`.
  static bool exists(const std::string& path);

  /// Opens and locks the file, creating it if it is missing. Throws: Io, also if another
  /// process is writing this set. The file is kept until finish(), its lock until then or
  /// destruction.
  explicit JobState(std::string path);
  /// True if an earlier run left the file with this fingerprint.
  bool is_of(const std::string& fingerprint) const { return fingerprint == fingerprint_; }
  /// Replaces the fingerprint. Throws: Io.
  void begin(const std::string& fingerprint);
  /// Removes the file: the set is complete, or nothing of it exists. Throws: Io.
  void finish();

 private:
  void read();

  std::string path_;
  std::string fingerprint_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace millrace::tools
