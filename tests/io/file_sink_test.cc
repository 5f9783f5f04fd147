#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "io/base/error.h"
#include "io/byte_sink.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

using ::testing::HasSubstr;
using testing::read_file;
using testing::TempDir;
using testing::write_file;

void write_to_file(ByteSink& sink, std::string_view text) {
  sink.write(std::as_bytes(std::span(text.data(), text.size())));
}

std::size_t num_files_in(const TempDir& dir) {
  const std::filesystem::directory_iterator entries(dir.path());
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

template <typename Call>
std::string fault_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

// Limits the size of files to `bytes` during its lifetime; exceeding it is EFBIG, not a signal.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  sighandler_t handler_;
};

TEST(FileSink, AppearsWholeOrNotAtAll) {
  const TempDir dir;
  const std::string path = dir / "a.tar";
  {
    const auto sink = open_file_sink(path);
    write_to_file(*sink, "half");
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_EQ(num_files_in(dir), 0U) << "an unfinished sink leaves nothing";
  const auto sink = open_file_sink(path);
  write_to_file(*sink, "whole");
  sink->finish();
  EXPECT_EQ(read_file(path), "whole");
  EXPECT_EQ(num_files_in(dir), 1U);
}

TEST(FileSink, ReplacesOnlyWhenToldTo) {
  const TempDir dir;
  write_file(dir / "a", "old");
  EXPECT_THAT(fault_of([&] { open_file_sink(dir / "a"); }), HasSubstr("InvalidArgument"));
  const auto sink = open_file_sink(dir / "a", {.replace = Replace::kAtomically});
  write_to_file(*sink, "new");
  EXPECT_EQ(read_file(dir / "a"), "old");
  sink->finish();
  EXPECT_EQ(read_file(dir / "a"), "new");
}

TEST(FileSink, AFileThatAppearsMeanwhileIsNotReplaced) {
  const TempDir dir;
  const auto sink = open_file_sink(dir / "a");
  write_to_file(*sink, "mine");
  write_file(dir / "a", "theirs");
  EXPECT_THAT(fault_of([&] { sink->finish(); }), HasSubstr("may not be replaced"));
  EXPECT_EQ(read_file(dir / "a"), "theirs");
}

TEST(FileSink, TwoWritersOfOneNameDoNotMix) {
  const TempDir dir;
  const FileSinkOptions replace{.replace = Replace::kAtomically};
  std::vector<std::jthread> writers;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    writers.emplace_back([&, letter] {
      for (int i = 0; i < 50; ++i) {
        const auto sink = open_file_sink(dir / "x", replace);
        for (int piece = 0; piece < 10; ++piece) write_to_file(*sink, std::string(1000, letter));
        sink->finish();
      }
    });
  }
  writers.clear();
  const std::string content = read_file(dir / "x");
  EXPECT_EQ(content, std::string(10'000, content.at(0)));
  EXPECT_EQ(num_files_in(dir), 1U);
}

TEST(FileSink, TakesOverWhatAKilledProcessLeft) {
  const TempDir dir;
  write_file(dir / "a.tmp-0", "left by somebody who is dead, and longer than what comes");
  const auto sink = open_file_sink(dir / "a");
  write_to_file(*sink, "new");
  sink->finish();
  EXPECT_EQ(read_file(dir / "a"), "new");
  EXPECT_EQ(num_files_in(dir), 1U);
}

TEST(FileSink, KeepsALivingWritersTemporary) {
  const TempDir dir;
  write_file(dir / "a.tmp-0", "alive");
  const int other = ::open((dir / "a.tmp-0").c_str(), O_RDONLY);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  const auto sink = open_file_sink(dir / "a");
  write_to_file(*sink, "new");
  sink->finish();
  EXPECT_EQ(read_file(dir / "a"), "new");
  EXPECT_EQ(read_file(dir / "a.tmp-0"), "alive");
  ::close(other);
}

TEST(FileSink, AnUnwritableTargetIsFoundAtOpening) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "folder");
  EXPECT_THAT(fault_of([&] { open_file_sink(dir / "folder"); }), HasSubstr("directory"));
  EXPECT_THAT(fault_of([&] { open_file_sink(dir / "no/such/folder"); }), HasSubstr("no/such"));
  EXPECT_THAT(fault_of([&] { open_file_sink(dir / std::string(250, 'x')); }),
              HasSubstr("too long"));
  EXPECT_THAT(fault_of([&] { open_file_sink("/proc/nothing"); }), HasSubstr("/proc/nothing"));
  EXPECT_EQ(num_files_in(dir), 1U);
}

TEST(FileSink, NeverTakesADevicesPlace) {
  const FileSinkOptions replace{.replace = Replace::kAtomically};
  EXPECT_THAT(fault_of([&] { open_file_sink("/dev/null", replace); }),
              HasSubstr("not a regular file"));
}

TEST(FileSink, AFailedWriteNamesPathAndReasonAndKeepsTheOldFile) {
  const TempDir dir;
  write_file(dir / "a", "old");
  const auto sink = open_file_sink(dir / "a", {.replace = Replace::kAtomically});
  const FileSizeLimit limit(100'000);
  const std::string fault = fault_of([&] { write_to_file(*sink, std::string(200'000, 'x')); });
  EXPECT_THAT(fault, HasSubstr(dir / "a"));
  EXPECT_THAT(fault, HasSubstr("File too large"));
  EXPECT_THAT(fault_of([&] { write_to_file(*sink, "x"); }), HasSubstr("earlier"));
  EXPECT_THAT(fault_of([&] { sink->finish(); }), HasSubstr("earlier"));
  EXPECT_EQ(read_file(dir / "a"), "old");
}

TEST(FileSink, AFullDiskNamesPathAndReasonAndLeavesNothing) {
  const TempDir dir;
  if (::mount("none", dir.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "may not mount a small tmpfs here";
  }
  {
    const auto sink = open_file_sink(dir / "a");
    const std::string fault = fault_of([&] { write_to_file(*sink, std::string(200'000, 'x')); });
    EXPECT_THAT(fault, HasSubstr(dir / "a"));
    EXPECT_THAT(fault, HasSubstr("No space left on device"));
  }
  EXPECT_EQ(num_files_in(dir), 0U);
  ::umount(dir.path().c_str());
}

TEST(FileSink, MakesNoFolderOutOfAUrl) {
  for (const std::string url : {"gs://bucket/a.tar", "s3://b/c", "https://h/a", "file:///tmp/a"}) {
    try {
      open_file_sink(url);
      FAIL() << url;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    }
  }
}

}  // namespace
}  // namespace millrace::io
