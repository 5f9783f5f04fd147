#include "pipeline/detail/arena.h"

#include <algorithm>
#include <utility>

#include "io/base/threads.h"
#include "pipeline/detail/sanitizer.h"

namespace millrace::pipeline::detail {
namespace {

/// An arena with one slot gets a worker of TBB's own for an enqueued task.
constexpr int kLeastSlots = 2;

int slots_for(int num_threads, int most_threads) {
  return std::max({num_threads, most_threads, kLeastSlots});
}

}  // namespace

Arena::Arena(int num_threads, int most_threads)
    : arena_(slots_for(num_threads, most_threads),
             static_cast<unsigned>(slots_for(num_threads, most_threads))) {
  arena_.initialize();
  const auto most = static_cast<std::size_t>(std::max(num_threads, most_threads));
  threads_.reserve(most);
  {
    MutexLock lock(mutex_);
    held_.reserve(most);
  }
  try {
    set_threads(num_threads);
  } catch (...) {
    stop();  // the ones that started wait for a call
    throw;
  }
}

Arena::~Arena() noexcept {
  stop();
  const TbbCode tbb;
  holds_.clear();
}

void Arena::set_threads(int num_threads) {
  while (threads_.size() < static_cast<std::size_t>(num_threads)) add_thread();
  MutexLock lock(mutex_);
  num_threads_ = num_threads;
}

// What a thread needs of TBB is allocated when it first enters an arena: a failure belongs to the
// caller.
void Arena::add_thread() {
  const TbbCode tbb;
  arena_.execute([this] { holds_.push_back(std::make_unique<Hold>()); });
  const auto enter = [this] {
    const TbbCode inside;
    arena_.execute([] {});
  };
  threads_.push_back(
      start_thread("to decode", enter, [this, &hold = *holds_.back()] { serve(hold); }));
}

void Arena::stop() noexcept {
  {
    const TbbCode tbb;
    MutexLock lock(mutex_);
    ended_ = true;
    release_holds();
  }
  called_.notify_all();
  threads_.clear();
}

void Arena::add(Need need) {
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    ++num_tasks_;
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
  if (--num_tasks_ == 0) release_holds();
}

int Arena::awake() const {
  MutexLock lock(mutex_);
  return awake_;
}

int Arena::wanted() const {
  return std::min(num_threads_, std::max(num_parallel_, num_tasks_ > 0 ? 1 : 0));
}

void Arena::serve(Hold& hold) {
  while (wait_for_call(hold)) {
    do {
      const TbbCode tbb;
      hold.wait_for_all();
    } while (is_needed(hold));
  }
}

bool Arena::wait_for_call(Hold& hold) {
  MutexLock lock(mutex_);
  while (calls_ == 0 && !ended_) called_.wait(lock);
  if (ended_) return false;
  --calls_;
  keep(hold);
  return true;
}

/// Whether there are new tasks for a thread whose last ones ended; otherwise it counts as asleep.
bool Arena::is_needed(Hold& hold) {
  MutexLock lock(mutex_);
  if (!ended_ && awake_ <= wanted()) {
    keep(hold);
    return true;
  }
  --awake_;
  return false;
}

void Arena::keep(Hold& hold) {
  if (num_tasks_ == 0) return;
  hold.reserve_wait();
  held_.push_back(&hold);
}

void Arena::release_holds() {
  for (Hold* const hold : held_) hold->release_wait();
  held_.clear();
}

}  // namespace millrace::pipeline::detail
