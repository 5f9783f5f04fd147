#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "io/base/error.h"
#include "io/detail/files/pipe_source.h"
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

TEST(PipeSource, EitherWaitIsSaidAndEnds) {
  for (const std::string command : {"sleep 1000", "exec >&-; sleep 1000"}) {
    const std::string url = "pipe:" + command;
    std::vector<std::string> said;
    const auto say = [&](const std::string& name, const std::string&, milliseconds waited) {
      said.push_back(name + " " + std::to_string(waited.count()));
    };
    const auto source = detail::open_pipe(
        url, {}, {.limit = milliseconds(30), .said_after = milliseconds(10), .say = say});
    try {
      read_all(*source, 100);
      FAIL() << "it never ends";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_EQ(error.where().url, url);
      EXPECT_THAT(error.message(), ::testing::EndsWith(" for 0.03 s"));
    }
    EXPECT_THAT(said, ::testing::Contains(url + " 10"));
  }
}

TEST(PipeSource, HasTheOpenersPatienceAndSoHasAFifo) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  const int writer = ::open((dir / "fifo").c_str(), O_RDWR | O_CLOEXEC);
  const UrlOpener brisk({.http = {.retry = {.patience = milliseconds(20)}}, .allow_pipe = true});
  for (const std::string& url : {std::string("pipe:sleep 1000"), dir / "fifo"}) {
    const auto source = brisk.open(url);
    std::byte buffer[10];
    EXPECT_THROW(source->read(buffer), Error) << url;
  }
  ::close(writer);
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
