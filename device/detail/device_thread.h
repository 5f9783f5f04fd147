// DeviceThread: the thread that does all of a device's work, in the order in which it was
// submitted.
//
// Threads: submit() from any but its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "io/base/thread_annotations.h"

namespace millrace::device {

class DeviceThread {
 public:
  /// Runs `enter` on the thread first, and throws what it throws. `device` is its name.
  DeviceThread(const std::string& device, std::function<void()> enter);
  /// Waits for the function that is running. Those that have not begun are dropped.
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  std::future<void> submit(std::function<void()> work);

 private:
  void serve();
  bool take(std::packaged_task<void()>& work);

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::packaged_task<void()>> waiting_ MILLRACE_GUARDED_BY(mutex_);
  bool stopped_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace millrace::device
