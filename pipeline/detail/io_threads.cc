#include "pipeline/detail/io_threads.h"

#include <utility>

#include "io/base/threads.h"

namespace millrace::pipeline::detail {

IoThreads::IoThreads(int count) {
  try {
    set_count(count);
  } catch (...) {
    stop();  // the ones that started wait for work
    throw;
  }
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

void IoThreads::set_count(int count) {
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    allowed_ = count;
  }
  threads_.reserve(static_cast<std::size_t>(count));
  while (threads_.size() < static_cast<std::size_t>(count))
    threads_.push_back(start_thread("to read shards", [this] { serve(); }));
  changed_.notify_all();
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
  while ((waiting_.empty() || working_ >= allowed_) && !stopped_) changed_.wait(lock);
  if (stopped_) return false;
  work = std::move(waiting_.front());
  waiting_.pop_front();
  ++working_;
  return true;
}

void IoThreads::done() {
  MutexLock lock(mutex_);
  --working_;
}

void IoThreads::serve() {
  for (std::function<void()> work; take(work); done()) {
    work();
    work = nullptr;
  }
}

}  // namespace millrace::pipeline::detail
