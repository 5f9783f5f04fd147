#include "device/detail/device_thread.h"

#include <utility>

#include "io/base/threads.h"

namespace millrace::device {

DeviceThread::DeviceThread(const std::string& device, std::function<void()> enter)
    : thread_(start_thread("for device " + device, std::move(enter), [this] { serve(); })) {}

DeviceThread::~DeviceThread() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

std::future<void> DeviceThread::submit(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  std::future<void> done = task.get_future();
  {
    MutexLock lock(mutex_);
    waiting_.push_back(std::move(task));
  }
  changed_.notify_one();
  return done;
}

void DeviceThread::serve() {
  for (std::packaged_task<void()> work; take(work);) work();
}

bool DeviceThread::take(std::packaged_task<void()>& work) {
  MutexLock lock(mutex_);
  while (waiting_.empty() && !stopped_) changed_.wait(lock);
  if (stopped_) return false;
  work = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

}  // namespace millrace::device
