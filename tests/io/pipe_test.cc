#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "io/base/error.h"
#include "io/opener.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::TempDir;

UrlOpener opener() { return UrlOpener({.allow_pipe = true}); }

TEST(PipeSource, RunsOnlyWhenAllowed) {
  const TempDir dir;
  EXPECT_THROW(UrlOpener().open("pipe:touch '" + (dir / "ran") + "'"), Error);
  EXPECT_FALSE(std::filesystem::exists(dir / "ran"));
}

TEST(PipeSource, AFailedCommandIsAFaultAtTheEndAndStaysOne) {
  const auto source = opener().open("pipe:printf hello; exit 3");
  std::byte buffer[100];
  EXPECT_EQ(source->read(buffer), 5U);
  for (int again = 0; again < 2; ++again) {
    try {
      source->read(buffer);
      FAIL() << "a failed command looked like the end";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_THAT(error.what(), HasSubstr("status 3"));
      EXPECT_EQ(error.where().offset, 5U);
    }
  }
}

TEST(PipeSource, AKilledCommandIsAFault) {
  const auto source = opener().open("pipe:kill -9 $$");
  try {
    read_all(*source, 100);
    FAIL() << "a killed command looked like the end";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("signal 9"));
  }
}

TEST(PipeSource, DestroyingItKillsTheWholePipeline) {
  const TempDir dir;
  auto source = opener().open("pipe:(sleep 1000 & echo $! >'" + (dir / "pid") + "'; wait) | cat");
  while (!std::filesystem::exists(dir / "pid") || std::filesystem::file_size(dir / "pid") == 0) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  const pid_t sleeper = std::stoi(testing::read_file(dir / "pid"));
  ASSERT_EQ(::kill(sleeper, 0), 0);
  source.reset();
  // Its parent is dead, so another process reaps it: a brief zombie is not alive.
  const auto alive = [&] {
    std::ifstream status("/proc/" + std::to_string(sleeper) + "/stat");
    std::string pid, name, state;
    return (status >> pid >> name >> state) && state != "Z";
  };
  // Unkilled it lives for longer than CTest lets a test run.
  while (alive()) std::this_thread::sleep_for(milliseconds(10));
}

// Waiting for output, and waiting for a command that has closed its output but runs on.
TEST(PipeSource, AStopEndsEitherWait) {
  for (const std::string command : {"sleep 1000", "exec >&-; sleep 1000"}) {
    std::stop_source stop;
    const auto source = opener().open("pipe:" + command, {.stop = stop.get_token()});
    std::jthread stopper([&] {
      std::this_thread::sleep_for(milliseconds(50));
      stop.request_stop();
    });
    try {
      read_all(*source, 100);
      FAIL() << "not stopped";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCancelled) << error.what();
    }
  }
}

}  // namespace
}  // namespace millrace::io
