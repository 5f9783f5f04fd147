// PartBudget: how many parts of objects the readers of an opener may have in flight ahead of what
// they read, in units of one part's bytes. Each reader may have its share; an eighth stays free for
// parts that are asked for twice.
//
// Threads: every member may be called from any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/base/thread_annotations.h"

namespace millrace::io::detail {

class PartBudget {
 public:
  PartBudget(std::size_t bytes, std::size_t part_bytes)
      : part_bytes_(part_bytes), parts_(bytes / part_bytes), shared_(parts_ - parts_ / 8) {}

  /// One part's bytes; they go back when it is destroyed. Lifetime: within the budget's.
  struct Return {
    void operator()(PartBudget* budget) const { budget->give(); }
  };
  using Held = std::unique_ptr<PartBudget, Return>;

  std::uint64_t part_bytes() const { return part_bytes_; }
  void join() MILLRACE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ++readers_;
  }
  void leave() MILLRACE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    --readers_;
  }
  /// Whether a reader that holds `held` parts may have another one. Where there are more readers
  /// than parts, some have one and others none.
  bool has_room(std::size_t held) const MILLRACE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const std::size_t share = shared_ / std::max<std::size_t>(1, readers_);
    return used_ < shared_ && held < std::max<std::size_t>(1, share);
  }
  /// Takes one; null if all are in use. Readers ask has_room() before; what they take at the same
  /// time may exceed their shares, never all.
  Held take() MILLRACE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (used_ >= parts_) return nullptr;
    ++used_;
    return Held(this);
  }

 private:
  void give() MILLRACE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    --used_;
  }

  const std::size_t part_bytes_;
  const std::size_t parts_;
  const std::size_t shared_;
  mutable Mutex mutex_;
  std::size_t used_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::size_t readers_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::io::detail
