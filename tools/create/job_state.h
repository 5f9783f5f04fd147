// JobState: the mark of a `create` that is under way or was cut short, so that the same command can
// go on with it.
//
// A hidden file beside the shards: {"millrace_create": 1, "fingerprint": "..."}, the fingerprint a
// hash of all options and inputs that the shards' bytes depend on. It is locked while a process
// writes the set, `create` or `reshard`, and goes when the set is complete.
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
  /// Where the state of the set `pattern` ("out/train-%06d.tar") lies: out/.train-%06d.create.json.
  static std::string path_of(const std::string& pattern);
  /// Whether a file is at `path`.
  static bool exists(const std::string& path);

  /// Opens and locks the file, making it where it is missing. Throws: Io, also when another process
  /// is writing this set.
  /// The file stays until finish(), its lock until then or the object's end.
  explicit JobState(std::string path);
  /// True when an earlier run left the file with this fingerprint.
  bool is_of(const std::string& fingerprint) const { return fingerprint == fingerprint_; }
  /// Writes the fingerprint over what was there. Throws: Io.
  void begin(const std::string& fingerprint);
  /// Removes the file: the set is complete, or nothing of it is there. Throws: Io.
  void finish();

 private:
  void read();

  std::string path_;
  std::string fingerprint_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace millrace::tools
