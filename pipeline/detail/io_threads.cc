#include "pipeline/detail/io_threads.h"

#include <utility>

namespace millrace::pipeline::detail {

IoThreads::IoThreads(int count) {
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { serve(); });
}

IoThreads::~IoThreads() { stop(); }

void IoThreads::submit(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void IoThreads::stop() {
  std::deque<std::function<void()>> left;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    left.swap(waiting_);
  }
  changed_.notify_all();
  threads_.clear();
}

bool IoThreads::take(std::function<void()>& work) {
  MutexLock lock(mutex_);
  while (waiting_.empty() && !stopped_) changed_.wait(lock);
  if (stopped_) return false;
  work = std::move(waiting_.front());
  waiting_.pop_front();
  return true;
}

void IoThreads::serve() {
  for (std::function<void()> work; take(work); work = nullptr) work();
}

}  // namespace millrace::pipeline::detail
