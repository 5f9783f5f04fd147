// create when it is killed or the disk is full: what it leaves, and what the same command does
// next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;  // name → content

Files files_in(const TempDir& dir) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(dir.path())) {
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), dir.path()).string()] = read_file(entry.path().string());
  }
  return files;
}

std::vector<std::string> names_of(const Files& files) {
  std::vector<std::string> names;
  for (const auto& [name, content] : files) names.push_back(name);
  return names;
}

/// Differences in the manifest's own folder do not count.
ProcessResult create_shuffled(const TempDir& dir, const std::string& disk = "",
                              const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {
      "create",   "out/s-%d.tar", "--synthetic", "classes", "--count",
      "7",        "--maxcount",   "3",           "--size",  "8",
      "--format", "ppm",          "--shuffle",   "1",       "--threads",
      "1"};
  words.insert(words.end(), more.begin(), more.end());
  ProcessOptions options{.folder = dir.path().string()};
  if (!disk.empty())
    options.environment = {{"LD_PRELOAD", MILLRACE_FAULTY_DISK},
                           {"MILLRACE_TEST_DISK", disk},
                           {"ASAN_OPTIONS", "verify_asan_link_order=0"}};
  return millrace(words, options);
}

/// Files under a final name are complete: the same as an uninterrupted run's.
void expect_nothing_broken(const Files& found, const Files& whole) {
  for (const auto& [name, content] : found) {
    if (name.find(".tmp-") != name.npos || name.find("/.") != name.npos) continue;
    ASSERT_TRUE(whole.contains(name)) << name;
    EXPECT_EQ(content, whole.at(name)) << name;
  }
}

class CreateRerun : public ::testing::Test {
 protected:
  CreateRerun() {
    EXPECT_EQ(create_shuffled(dir_).status, 0);
    whole_ = files_in(dir_);
  }
  /// One run on the disk, then one that must complete it.
  ProcessResult fail_and_rerun(const std::string& disk, const std::vector<std::string>& more = {}) {
    const TempDir dir;
    ProcessResult failed = create_shuffled(dir, disk, more);
    expect_nothing_broken(files_in(dir), whole_);
    if (failed.status == 0) return failed;
    const ProcessResult rerun = create_shuffled(dir, "", more);
    EXPECT_EQ(rerun.status, 0) << disk << ": " << rerun.err;
    EXPECT_EQ(files_in(dir), whole_) << disk;
    return failed;
  }
  TempDir dir_;
  Files whole_;
};

TEST_F(CreateRerun, AWholeSetHasNoStateAndNoTemporaries) {
  EXPECT_THAT(names_of(whole_),
              ElementsAre("out/s-0.tar", "out/s-0.tar.index.json", "out/s-1.tar",
                          "out/s-1.tar.index.json", "out/s-2.tar", "out/s-2.tar.index.json",
                          "out/s-classes.txt", "out/s-manifest.json"));
}

TEST_F(CreateRerun, KilledBeforeAnyCallTheSameCommandCompletesTheSet) {
  int killed = 0;
  for (int call = 1; call < 1000; call += 2) {
    const auto result = fail_and_rerun("kill:" + std::to_string(call));
    if (result.status == 0) break;
    ASSERT_EQ(result.status, 128 + SIGKILL);
    ++killed;
  }
  EXPECT_GE(killed, 25);
}

TEST_F(CreateRerun, ForcedItIsMendedToo) {
  for (const int call : {1, 2, 4, 7, 11, 16, 22, 29, 37})
    fail_and_rerun("kill:" + std::to_string(call), {"--force"});
}

TEST_F(CreateRerun, AFullDiskIsAFaultThatNamesPathAndReason) {
  int faults = 0;
  for (int kib = 0; kib < 200; kib += 4) {
    const auto result = fail_and_rerun("full:" + std::to_string(kib * 1024));
    if (result.status == 0) break;
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.err, HasSubstr("out/"));
    EXPECT_THAT(result.err, HasSubstr("No space left on device"));
    ++faults;
  }
  EXPECT_GE(faults, 8);
}

TEST_F(CreateRerun, AFailedSyncIsAFault) {
  for (const int sync : {1, 2, 4, 5}) {
    const auto result = fail_and_rerun("fsync:" + std::to_string(sync));
    EXPECT_EQ(result.status, 1) << sync;
    EXPECT_THAT(result.err, HasSubstr("No space left on device"));
  }
}

// A folder that cannot be listed is not an empty one, a file that cannot be deleted not one that
// somebody else has just written.
TEST_F(CreateRerun, ForcedItSaysWhatCannotBeListedOrDeleted) {
  const std::vector<std::string> forced = {"--force", "--seed", "5"};
  for (const std::string fault : {"list:", "remove:"}) {
    int faults = 0;
    for (int nth = 1; nth < 40; ++nth) {
      const TempDir dir;
      ASSERT_EQ(create_shuffled(dir).status, 0);
      const auto result = create_shuffled(dir, fault + std::to_string(nth), forced);
      if (result.status == 0) break;
      ++faults;
      EXPECT_EQ(result.status, 1) << fault << nth << ": " << result.err;
      EXPECT_THAT(result.err, HasSubstr(fault == "list:" ? ": list out: " : ": delete out/"))
          << fault << nth;
    }
    EXPECT_GE(faults, 4) << fault;
  }
}

TEST_F(CreateRerun, WholeShardsAreKeptAndNotMadeAgain) {
  const TempDir dir;
  ASSERT_EQ(create_shuffled(dir, "kill:25").status, 128 + SIGKILL);
  ASSERT_TRUE(fs::exists(dir / "out/s-0.tar"));
  ASSERT_FALSE(fs::exists(dir / "out/s-2.tar"));
  const auto before = fs::last_write_time(dir / "out/s-0.tar");
  const auto result = create_shuffled(dir, "", {"--json"});
  EXPECT_THAT(result.err, HasSubstr("continuing: "));
  EXPECT_EQ(json_lines(result.out).size(), 3U) << "shards of both runs are told";
  EXPECT_EQ(fs::last_write_time(dir / "out/s-0.tar"), before);
}

TEST_F(CreateRerun, AShardThatWasDamagedMeanwhileIsMadeAgain) {
  const TempDir dir;
  ASSERT_EQ(create_shuffled(dir, "kill:25").status, 128 + SIGKILL);
  fs::resize_file(dir / "out/s-0.tar", 600);
  EXPECT_EQ(create_shuffled(dir).status, 0);
  EXPECT_EQ(files_in(dir), whole_);
}

TEST_F(CreateRerun, AnUnfinishedSetOfOtherOptionsIsRefused) {
  const TempDir dir;
  ASSERT_EQ(create_shuffled(dir, "kill:25").status, 128 + SIGKILL);
  const Files before = files_in(dir);
  const auto refused = create_shuffled(dir, "", {"--seed", "5"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("unfinished"));
  EXPECT_EQ(files_in(dir), before);
  EXPECT_EQ(create_shuffled(dir, "", {"--seed", "5", "--force"}).status, 0);
  EXPECT_THAT(names_of(files_in(dir)), Not(Contains(HasSubstr("tmp"))));
}

TEST_F(CreateRerun, WithoutIndexesItContinuesByReadingTheShards) {
  const TempDir once;
  ASSERT_EQ(create_shuffled(once, "", {"--no-index"}).status, 0);
  const Files whole = files_in(once);
  EXPECT_EQ(whole.size(), 4U) << "three shards and the classes";
  for (const int call : {5, 10, 12, 15, 20}) {
    const TempDir dir;
    create_shuffled(dir, "kill:" + std::to_string(call), {"--no-index"});
    ASSERT_EQ(create_shuffled(dir, "", {"--no-index"}).status, 0);
    EXPECT_EQ(files_in(dir), whole) << call;
  }
}

TEST_F(CreateRerun, AnInputThatChangedMeanwhileIsNotMixedIn) {
  const TempDir dir;
  for (const char* name : {"a", "b", "c", "d"})
    write_file(dir / ("in/" + std::string(name) + ".jpg"), std::string("old ") + name);
  const std::vector<std::string> words = {"create", "out/s-%d.tar", "--from-folder",
                                          "in",     "--maxcount",   "1"};
  const auto run = [&](const std::string& disk) {
    return millrace(words, {.environment = {{"LD_PRELOAD", MILLRACE_FAULTY_DISK},
                                            {"MILLRACE_TEST_DISK", disk},
                                            {"ASAN_OPTIONS", "verify_asan_link_order=0"}},
                            .folder = dir.path().string()});
  };
  ASSERT_EQ(run("kill:20").status, 128 + SIGKILL);
  ASSERT_TRUE(fs::exists(dir / "out/s-0.tar"));
  write_file(dir / "in/a.jpg", "new and longer");
  EXPECT_EQ(run("none").status, 2);
}

}  // namespace
}  // namespace millrace::testing
