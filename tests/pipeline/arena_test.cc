#include "pipeline/detail/arena.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <thread>

#include "pipeline/detail/sanitizer.h"

namespace millrace::pipeline::detail {
namespace {

using namespace std::chrono_literals;

/// Submits a task to the arena.
void run_task(Arena& arena, Arena::Need need, const std::function<void()>& work) {
  arena.add(need);
  const TbbCode tbb;
  arena.tbb().enqueue([&arena, need, work] {
    const NodeBody body;
    work();
    arena.done(need);
  });
}

/// Waits until all threads sleep: if they never do, until CTest ends the test.
void await_sleep(const Arena& arena) {
  while (arena.awake() > 0) std::this_thread::sleep_for(1ms);
}

TEST(Arena, ItsThreadsSleepWhereThereIsNothingToDo) {
  for (const int threads : {1, 2, 4}) {
    Arena arena(threads);
    EXPECT_EQ(arena.awake(), 0);
    std::atomic<int> done{0};
    for (int round = 0; round < 100; ++round) {
      for (int i = 0; i < 5; ++i) run_task(arena, Arena::Need::kParallel, [&] { ++done; });
      run_task(arena, Arena::Need::kSerial, [&] { ++done; });
      if (round % 10 == 0) std::this_thread::sleep_for(1ms);
    }
    await_sleep(arena);
    EXPECT_EQ(done, 600);
  }
}

TEST(Arena, ParallelTasksGetAThreadEach) {
  Arena arena(3);
  std::latch all_run(3);
  for (int i = 0; i < 3; ++i)
    run_task(arena, Arena::Need::kParallel, [&] { all_run.arrive_and_wait(); });
  await_sleep(arena);
  EXPECT_TRUE(all_run.try_wait());
}

TEST(Arena, NoMoreThreadsAreCalledThanTasksCanRun) {
  Arena arena(4);
  std::latch go(1);
  run_task(arena, Arena::Need::kSerial, [&] { go.wait(); });
  run_task(arena, Arena::Need::kSerial, [] {});
  EXPECT_EQ(arena.awake(), 1);
  run_task(arena, Arena::Need::kParallel, [&] { go.wait(); });
  EXPECT_EQ(arena.awake(), 1) << "the serial ones are short";
  run_task(arena, Arena::Need::kParallel, [&] { go.wait(); });
  EXPECT_EQ(arena.awake(), 2);
  go.count_down();
  await_sleep(arena);
}

// TBB frees what it keeps for a thread with the thread.
TEST(Arena, ATaskMayOutliveTheThreadThatAnnouncedIt) {
  Arena arena(2);
  std::atomic<int> done{0};
  for (int round = 0; round < 200; ++round) {
    std::latch gone(1);
    std::thread([&] {
      run_task(arena, Arena::Need::kParallel, [&] {
        gone.wait();
        ++done;
      });
    }).join();
    gone.count_down();
    while (done <= round) std::this_thread::yield();
  }
  await_sleep(arena);
}

TEST(Arena, MoreThreadsComeWhileItWorks) {
  Arena arena(1, 3);
  std::latch all_run(3);
  for (int i = 0; i < 3; ++i)
    run_task(arena, Arena::Need::kParallel, [&] { all_run.arrive_and_wait(); });
  arena.set_threads(3);
  run_task(arena, Arena::Need::kParallel, [] {});  // each announced task wakes at most one thread
  run_task(arena, Arena::Need::kParallel, [] {});
  await_sleep(arena);
  EXPECT_TRUE(all_run.try_wait());
}

}  // namespace
}  // namespace millrace::pipeline::detail
