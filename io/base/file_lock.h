// FileLock: an exclusive flock on a file, held for the lifetime of the object or of the process.
//
// It marks a folder or a set of files as being written. The kernel releases it when the process
// ends for whatever reason, so a killed process leaves no stale lock.
//
//   const auto lock = FileLock::try_take("runs/one/.lock");
//   if (!lock) ...  // another process, or another object of this one, has it
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>

namespace millrace {

/// Returns false if `path` names a different file than `fd`, or none: between an open and a lock,
/// the previous holder of the lock may have renamed or deleted it.
bool same_file(int fd, const std::string& path);

class FileLock {
 public:
  /// Locks the file at `path`, creating it if missing; null if it is already locked. On a file
  /// system without locks it succeeds without locking. Throws: NotFound, Io if it cannot be opened.
  static std::unique_ptr<FileLock> try_take(const std::string& path);
  /// Unlocks the file and leaves it in place.
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// The locked file, open for reading and writing.
  int fd() const { return fd_; }
  /// Whether the path still names the locked file: false if it was deleted or replaced.
  bool in_place() const;
  /// Deletes the file; does nothing if it is already gone. Throws: NotFound (no permission), Io.
  void remove();

 private:
  FileLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
};

}  // namespace millrace
