// What a machine that has no thread or no memory left leads to: one line, exit status 1, soon.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/effort.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using Words = std::vector<std::string>;

struct Counts {
  long threads = 0;
  long memory = 0;
  long tasks = 0;
};

class NoRoom : public ::testing::Test {
 protected:
  ProcessOptions machine(const std::string& fault) const {
    return {.environment = {{"LD_PRELOAD", MILLRACE_FAULTY_MACHINE},
                            {"MILLRACE_TEST_MACHINE", fault},
                            {"MILLRACE_TEST_MACHINE_COUNTS", dir_ / "counts"},
                            {"GOMP_SPINCOUNT", "1000"},  // else it begins a second time
                            {"MALLOC_PERTURB_", "165"},  // what was never set or is gone is seen
                            {"ASAN_OPTIONS", "verify_asan_link_order=0"}},
            .folder = dir_.path().string()};
  }

  Counts counts_of(const Words& words) const {
    const ProcessResult result = millrace(words, machine("count"));
    EXPECT_EQ(result.status, 0) << words.front() << result.err;
    Counts counts;
    const std::string text = read_file(dir_ / "counts");
    EXPECT_EQ(std::sscanf(text.c_str(), "threads %ld memory %ld tasks %ld", &counts.threads,
                          &counts.memory, &counts.tasks),
              3)
        << text;
    return counts;
  }

  /// One line that says why, or nothing where it could do without.
  static void expect_told(const ProcessResult& result, const std::string& what) {
    if (result.status == 0) return;
    EXPECT_EQ(result.status, 1) << what << "\n" << result.err;
    EXPECT_EQ(result.err.find("terminate"), result.err.npos) << what << "\n" << result.err;
    EXPECT_EQ(result.err.find("std::"), result.err.npos) << what << "\n" << result.err;
    std::size_t told = 0;
    for (const std::string& line : lines_of(result.err))
      told += line.starts_with("millrace") || line.starts_with("libgomp: ") ? 1 : 0;
    EXPECT_EQ(told, 1U) << what << "\n" << result.err;
  }

  void fail_each_thread(const Words& words) const {
    const long threads = counts_of(words).threads;
    EXPECT_GT(threads, 0);
    // Other runs may start a few more, where they decode ahead.
    for (long n = 1; n <= threads + 1; ++n)
      for (const std::string mode : {"thread:", "threads:"})
        expect_told(millrace(words, machine(mode + std::to_string(n))),
                    words.front() + " " + mode + std::to_string(n));
  }

  void fail_some_allocations(const Words& words, long most) const {
    const long count = counts_of(words).memory;
    EXPECT_GT(count, 0);
    const long step = std::max(1L, count / (is_long() ? most * 20 : most));
    for (long n = 1; n <= count; n += step) {
      std::filesystem::remove(dir_ / "made-00.tar");  // what a run that could do without has made
      std::filesystem::remove(dir_ / "made-00.tar.index.json");
      expect_told(millrace(words, machine("memory:" + std::to_string(n))),
                  words.front() + " memory:" + std::to_string(n));
    }
  }

  // TBB tells nobody of a task that it could not make behind one of ours.
  void fail_some_tasks(const Words& words, long most) const {
    const long count = counts_of(words).tasks;
    EXPECT_GT(count, 0) << "what TBB allocates by";
    const long step = std::max(1L, count / (is_long() ? most * 10 : most));
    for (long n = 1; n <= count; n += step) {
      ProcessOptions options = machine("tasks:" + std::to_string(n));
      options.limit = std::chrono::seconds(30);
      expect_told(millrace(words, options), words.front() + " tasks:" + std::to_string(n));
    }
  }

  const TempDir dir_;
  const std::string spec_ = make_set(dir_, 24, 8);
  const Words train_ = {"train",        spec_, "--model",   "lenet", "--epochs",  "1",
                        "--batch-size", "4",   "--devices", "2",     "--threads", "2",
                        "--size",       "32"};
  const Words create_ = {"create", "made-%02d.tar", "--synthetic", "classes", "--count",
                         "20",     "--threads",     "3",           "--force"};
};

TEST_F(NoRoom, ACommandWithoutItsNthThreadSaysSo) {
  fail_each_thread(create_);
  fail_each_thread({"verify", spec_, "--threads", "3"});
  fail_each_thread(train_);
  if (!is_long()) return;
  fail_each_thread({"bench", spec_, "--seconds", "0.2", "--threads", "3"});
  fail_each_thread({"order", spec_, "--threads", "3"});
  fail_each_thread({"stats", spec_, "--threads", "3"});
  fail_each_thread({"index", spec_, "--threads", "3", "--force"});
}

TEST_F(NoRoom, ManyThreadsAreRefusedWhereTheLimitIsLower) {
  for (const Words& words :
       std::vector<Words>{{"train", spec_, "--model", "lenet", "--size", "32", "--threads", "256"},
                          {"train", spec_, "--model", "lenet", "--size", "32", "--devices", "1000"},
                          {"verify", spec_, "--threads", "64"}}) {
    const ProcessResult result = millrace(words, machine("threads:20"));
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_NE(result.err.find("Exhausted: no thread to be had"), result.err.npos) << result.err;
  }
}

TEST_F(NoRoom, ACommandWithoutItsNthAllocationSaysSo) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer allocates for itself";
  fail_some_allocations({"verify", spec_, "--threads", "2"}, 15);
  fail_some_allocations(train_, 15);
  if (!is_long()) return;
  fail_some_allocations(create_, 15);
  fail_some_allocations({"order", spec_, "--threads", "2"}, 15);
  fail_some_allocations({"ls", spec_}, 15);
}

TEST_F(NoRoom, ACommandWithoutMemoryForATaskSaysSo) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer allocates for itself";
  fail_some_tasks({"bench", spec_, "--seconds", "0.2", "--threads", "3", "--batch-size", "4"}, 30);
  fail_some_tasks(train_, 15);
}

TEST_F(NoRoom, AModelThatDoesNotFitIntoTheLimitOfMemoryIsRefused) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer reserves terabytes";
  const int step = is_long() ? 20 : 150;
  for (int megabytes = 250; megabytes <= 1000; megabytes += step) {
    const std::string command = "ulimit -v " + std::to_string(megabytes * 1000) + "; exec " +
                                MILLRACE_PROGRAM + " train '" + spec_ +
                                "' --model resnet18 --epochs 1 --batch-size 4 --size 32";
    const ProcessResult result =
        run_process({"/bin/sh", "-c", command}, {.folder = dir_.path().string()});
    expect_told(result, std::to_string(megabytes) + " MB");
  }
}

}  // namespace
}  // namespace millrace::testing
