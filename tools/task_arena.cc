#include "tools/task_arena.h"

#include <utility>

#include "io/base/machine.h"
#include "io/base/threads.h"

namespace millrace::tools {

TaskArena::TaskArena(int threads)
    : num_threads_(threads > 0 ? threads : usable_cores()),
      arena_(num_threads_, static_cast<unsigned>(num_threads_)) {
  arena_.initialize();
  helpers_.reserve(static_cast<std::size_t>(num_threads_));
  try {
    for (int i = 1; i < num_threads_; ++i) add_helper();
  } catch (...) {
    stop();  // the ones that started wait for a call
    throw;
  }
}

TaskArena::~TaskArena() { stop(); }

// What a thread needs of TBB is allocated when it first enters an arena: a failure belongs to the
// caller.
void TaskArena::add_helper() {
  arena_.execute([this] { holds_.push_back(std::make_unique<Hold>()); });
  const auto enter = [this] { arena_.execute([] {}); };
  helpers_.push_back(
      start_thread("to work on shards", enter, [this, &hold = *holds_.back()] { serve(hold); }));
}

void TaskArena::stop() {
  {
    MutexLock lock(mutex_);
    ended_ = true;
  }
  called_.notify_all();
  helpers_.clear();
}

void TaskArena::execute(const std::function<void()>& work) {
  struct Held {
    explicit Held(const std::vector<std::unique_ptr<Hold>>& all) : holds(all) {
      for (const auto& hold : holds) hold->reserve_wait();
    }
    ~Held() {
      for (const auto& hold : holds) hold->release_wait();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    const std::vector<std::unique_ptr<Hold>>& holds;
  };
  const Held held(holds_);
  {
    MutexLock lock(mutex_);
    ++calls_;
  }
  called_.notify_all();
  arena_.execute(work);
}

void TaskArena::serve(Hold& hold) {
  for (std::uint64_t seen = 0;;) {
    {
      MutexLock lock(mutex_);
      while (calls_ == seen && !ended_) called_.wait(lock);
      if (ended_) return;
      seen = calls_;
    }
    hold.wait_for_all();
  }
}

}  // namespace millrace::tools
