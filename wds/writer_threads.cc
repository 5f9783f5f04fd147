#include "wds/writer_threads.h"

#include <utility>

#include "io/base/threads.h"

namespace millrace::wds {

JobLane::~JobLane() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
  }
  added_.notify_all();
}

std::future<void> JobLane::add(std::function<void()> job) {
  std::packaged_task<void()> task(std::move(job));
  std::future<void> done = task.get_future();
  {
    MutexLock lock(mutex_);
    if (!thread_.joinable()) thread_ = start_thread(purpose_, [this] { work(); });
    jobs_.push_back(std::move(task));
  }
  added_.notify_one();
  return done;
}

void JobLane::work() {
  for (;;) {
    std::packaged_task<void()> job;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !ended_) added_.wait(lock);
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace millrace::wds
