#include "pipeline/detail/arena.h"

#include <algorithm>

#include "pipeline/detail/sanitizer.h"

namespace millrace::pipeline::detail {

Arena::Arena(int num_threads, int most_threads)
    : arena_(std::max(num_threads, most_threads),
             static_cast<unsigned>(std::max(num_threads, most_threads))) {
  arena_.initialize();
  set_threads(num_threads);
}

Arena::~Arena() noexcept {
  stop();
  const TbbCode tbb;
  tasks_.wait();
}

void Arena::set_threads(int num_threads) {
  {
    MutexLock lock(mutex_);
    num_threads_ = num_threads;
  }
  while (threads_.size() < static_cast<std::size_t>(num_threads))
    threads_.emplace_back([this] { serve(); });
}

void Arena::stop() noexcept {
  {
    const TbbCode tbb;
    MutexLock lock(mutex_);
    ended_ = true;
    hold_ = {};
  }
  called_.notify_all();
  threads_.clear();
}

void Arena::add(Need need) {
  {
    const TbbCode tbb;
    MutexLock lock(mutex_);
    if (ended_) return;
    if (num_tasks_++ == 0) hold_ = tasks_.defer([] {});
    if (need == Need::kParallel) ++num_parallel_;
    if (awake_ >= wanted()) return;
    ++awake_;
    ++calls_;
  }
  called_.notify_one();
}

void Arena::done(Need need) {
  const TbbCode tbb;
  MutexLock lock(mutex_);
  if (ended_) return;
  if (need == Need::kParallel) --num_parallel_;
  if (--num_tasks_ == 0) hold_ = {};
}

int Arena::awake() const {
  MutexLock lock(mutex_);
  return awake_;
}

int Arena::wanted() const {
  return std::min(num_threads_, std::max(num_parallel_, num_tasks_ > 0 ? 1 : 0));
}

void Arena::serve() {
  while (wait_for_call()) {
    do {
      const TbbCode tbb;
      arena_.execute([this] { tasks_.wait(); });
    } while (is_needed());
  }
}

bool Arena::wait_for_call() {
  MutexLock lock(mutex_);
  while (calls_ == 0 && !ended_) called_.wait(lock);
  if (ended_) return false;
  --calls_;
  return true;
}

/// Whether there are new tasks for a thread whose last ones ended; otherwise it counts as asleep.
bool Arena::is_needed() {
  MutexLock lock(mutex_);
  if (!ended_ && awake_ <= wanted()) return true;
  --awake_;
  return false;
}

}  // namespace millrace::pipeline::detail
