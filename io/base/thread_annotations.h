// Clang's thread-safety annotations and a mutex that carries them; they expand to nothing under
// other compilers.
//
//   Mutex mutex_;
//   int count_ MILLRACE_GUARDED_BY(mutex_) = 0;
//   { MutexLock lock(mutex_); ++count_; }
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define MILLRACE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define MILLRACE_THREAD_ATTRIBUTE(x)
#endif

#define MILLRACE_GUARDED_BY(mutex) MILLRACE_THREAD_ATTRIBUTE(guarded_by(mutex))
#define MILLRACE_REQUIRES(mutex) MILLRACE_THREAD_ATTRIBUTE(requires_capability(mutex))
#define MILLRACE_EXCLUDES(mutex) MILLRACE_THREAD_ATTRIBUTE(locks_excluded(mutex))

namespace millrace {

/// std::mutex, known to the analysis. Wait on it with std::condition_variable_any.
class MILLRACE_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() MILLRACE_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() MILLRACE_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a Mutex for its own lifetime; a BasicLockable, so a condition_variable_any can wait on it.
class MILLRACE_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MILLRACE_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() MILLRACE_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  /// Only for std::condition_variable_any, which unlocks while it waits and then locks again.
  void lock() MILLRACE_THREAD_ATTRIBUTE(no_thread_safety_analysis) { mutex_.lock(); }
  void unlock() MILLRACE_THREAD_ATTRIBUTE(no_thread_safety_analysis) { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

}  // namespace millrace
