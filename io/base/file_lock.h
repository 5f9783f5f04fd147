// FileLock: an exclusive lock on a file, held while the object or its process lives.
//
// It says that a folder or a set of files is being written. The kernel drops it when the process
// ends, however it ends: a lock never outlives a kill.
//
//   const auto lock = FileLock::try_take("runs/one/.lock");
//   if (!lock) ...  // another process, or another object of this one, has it
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>

namespace millrace {

class FileLock {
 public:
  /// Locks the file at `path`, making it where it is missing; null when it is locked already. On a
  /// file system without locks nothing is locked, and the lock is given. Throws: Io.
  static std::unique_ptr<FileLock> try_take(const std::string& path);
  /// Unlocks the file, which stays.
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// The locked file, open for reading and writing.
  int fd() const { return fd_; }
  /// Whether the path still names the locked file: false when it was deleted or replaced.
  bool in_place() const;
  /// Deletes the file. Throws: Io.
  void remove();

 private:
  FileLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
};

}  // namespace millrace
