// ScanMark: the sign that a shard is being scanned, a locked file where its scan will be kept: so
// processes that start together divide the shards.
//
// Its holder writes its name there, and a new time of modification while it goes on. Who waits says
// after two seconds for whom, and goes on without the mark once there was no sign for
// ScanOptions::patience: the holder is stopped (SIGSTOP), or waits itself. Without a cache that can
// be written nobody has a mark, and every process scans all.
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "io/base/file_lock.h"
#include "wds/shard_scan.h"

namespace millrace::wds::detail {

/// What to do about a shard that another process scans just now.
enum class IfTaken { kPostpone, kWait };

class ScanMark {
 public:
  /// `path`: the scan's. Throws: Cancelled.
  ScanMark(const std::string& path, const std::string& url, const ScanOptions& options,
           IfTaken if_taken);
  /// Removes it.
  ~ScanMark();
  ScanMark(const ScanMark&) = delete;
  ScanMark& operator=(const ScanMark&) = delete;

  /// Whether another process has it, and the scan is to be tried again later.
  bool is_postponed() const { return is_postponed_; }
  /// Tells those who wait that this process goes on. To be called often.
  void sign_of_life();

 private:
  void await(const std::string& url, const ScanOptions& options);
  void sign();

  const std::string lock_path_;
  std::unique_ptr<FileLock> lock_;
  bool is_postponed_ = false;
  std::chrono::steady_clock::time_point signed_ = {};
};

}  // namespace millrace::wds::detail
