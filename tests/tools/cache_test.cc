// --cache in every command that reads shards, and `millrace cache`: processes that share a cache,
// are killed, and find it damaged or its disk full; never a wrong sample, never over the limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <vector>

#include "tests/support/nginx.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CachedCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
    make_set(dir_, 240, 60, {"--format", "ppm"});
    server_ = std::make_unique<Nginx>(dir_.path());
    spec_ = server_->url("set-{000000..000003}.tar");
    samples_ = order({}).out;
    ASSERT_FALSE(samples_.empty());
  }

  /// The samples' keys and checksums in the order of an epoch, which four readers read by turns.
  ProcessResult order(std::vector<std::string> more, const ProcessOptions& options = {}) const {
    more.insert(more.begin(), {"order", spec_, "--digest", "--workers", "4", "--shuffle", "5"});
    return millrace(more, options);
  }
  std::vector<std::string> cache(const std::string& size = "1GiB") const {
    return {"--cache", cache_, "--cache-size", size};
  }
  /// Requests for more of a shard than its first byte.
  std::size_t bodies() const {
    const std::string log = server_->access_log();
    return count_of(log, ".tar 206 ") - count_of(log, "bytes=0-0\n");
  }
  std::uint64_t disk_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& file : fs::recursive_directory_iterator(cache_)) {
      struct stat status {};
      if (::lstat(file.path().c_str(), &status) == 0 && S_ISREG(status.st_mode))
        sum += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return sum;
  }
  ProcessOptions disk(const std::string& how) const {
    return {.environment = {{"LD_PRELOAD", MILLRACE_FAULTY_DISK},
                            {"MILLRACE_TEST_DISK", how},
                            {"ASAN_OPTIONS", "verify_asan_link_order=0"}}};
  }

  const TempDir dir_;
  const TempDir cache_dir_;
  const std::string cache_ = cache_dir_ / "cache";
  std::unique_ptr<Nginx> server_;
  std::string spec_;
  std::string samples_;
};

// The streams' first shards are read by the indexes that were fetched to count the samples.
TEST_F(CachedCommands, FetchEachIndexOnceWithoutACache) {
  ASSERT_EQ(millrace({"index", dir_ / "set-{000000..000003}.tar"}).status, 0);
  EXPECT_EQ(order({}).out, samples_);
  EXPECT_EQ(count_of(server_->access_log(), ".index.json 206 "), 4U) << server_->access_log();
}

TEST_F(CachedCommands, ReadASecondTimeFromTheDisk) {
  EXPECT_EQ(order(cache()).out, samples_);
  const std::size_t first = bodies();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(order(cache()).out, samples_);
  EXPECT_EQ(bodies(), first) << server_->access_log();
  const ProcessResult listed = millrace({"cache", "ls", "--json", cache_});
  for (const auto& entry : json_lines(listed.out)) EXPECT_EQ(entry["state"], "whole") << entry;
  EXPECT_EQ(json_lines(listed.out).size(), 4U);
}

TEST_F(CachedCommands, ShareOneCache) {
  ASSERT_EQ(order(cache()).status, 0);
  const std::size_t first = bodies();
  const std::string shard = server_->url("set-000000.tar");
  const std::string first_key = list_samples(dir_ / "set-000000.tar").at(0)["key"];
  const std::vector<std::vector<std::string>> commands = {
      {"ls", spec_},
      {"cat", shard, first_key + ".cls"},
      {"stats", spec_},
      {"verify", spec_},
      {"view", shard, "-o", dir_ / "seen.png"},
      {"reshard", spec_, dir_ / "new-%06d.tar"},
      {"bench", spec_, "--stage", "read", "--seconds", "0.3"},
      {"train", "--train", spec_, "--val", spec_, "--model", "lenet", "--channels", "3", "--size",
       "16", "--classes", "10", "--batch-size", "8", "--run-dir", dir_ / "run"},
      {"eval", spec_, "--checkpoint", dir_ / "run"},
      {"predict", spec_, "--checkpoint", dir_ / "run", "--output", dir_ / "rows.csv"}};
  for (std::vector<std::string> words : commands) {
    const std::vector<std::string> where = cache();
    words.insert(words.end(), where.begin(), where.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 0) << words[0] << ": " << result.err;
    EXPECT_EQ(bodies(), first) << words[0] << "\n" << server_->access_log();
  }
}

TEST_F(CachedCommands, ResumeInTheMiddle) {
  const auto train = [&](const std::string& run, std::vector<std::string> more,
                         const ProcessOptions& options = {}) {
    const std::vector<std::string> words = {
        "train", "--train",    spec_, "--model",     "lenet",   "--size",
        "16",    "--channels", "3",   "--classes",   "10",      "--batch-size",
        "8",     "--epochs",   "2",   "--precision", "fp32",    "--save-every-steps",
        "5",     "--streams",  "4",   "--run-dir",   dir_ / run};
    more.insert(more.begin(), words.begin(), words.end());
    return millrace(more, options);
  };
  const auto weights = [&](const std::string& run) {
    return read_file(dir_ / (run + "/checkpoints/last/model.safetensors"));
  };
  ASSERT_EQ(train("plain", {}).status, 0);
  ASSERT_EQ(train("cached", cache(), disk("rename:25")).status, 128 + SIGKILL);
  std::vector<std::string> resumed = cache();
  resumed.insert(resumed.end(), {"--resume", "auto"});
  const ProcessResult result = train("cached", resumed);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("Resumed from "));
  EXPECT_EQ(weights("cached"), weights("plain"));
}

TEST_F(CachedCommands, KilledAtAnyMomentLeaveACacheThatTheNextOneUses) {
  // The set takes about 660 kB; the limit makes every process remove what others made.
  constexpr std::uint64_t kLimit = 400'000;
  std::mt19937 random(7);
  const auto run = [&](int kill) {
    return std::async(std::launch::async, [this, kill] {
      return order(cache("400kB"),
                   kill == 0 ? ProcessOptions{} : disk("kill:" + std::to_string(kill)));
    });
  };
  int killed = 0;
  for (int round = 0; round < 100 && killed < 50; ++round) {
    std::vector<std::future<ProcessResult>> running;
    for (int i = 0; i < 3; ++i) running.push_back(run(1 + static_cast<int>(random() % 40)));
    running.push_back(run(0));
    for (auto& each : running) {
      const ProcessResult result = each.get();
      killed += result.status == 128 + SIGKILL;
      if (result.status == 0)
        EXPECT_EQ(result.out, samples_);
      else
        EXPECT_EQ(result.status, 128 + SIGKILL) << result.err;
    }
    EXPECT_LE(disk_bytes(), kLimit);
  }
  EXPECT_GE(killed, 50);
  const ProcessResult verified = millrace({"cache", "verify", cache_});
  EXPECT_THAT(verified.out, HasSubstr(", 0 damaged and removed")) << verified.err;
  EXPECT_EQ(order(cache()).out, samples_);
}

TEST_F(CachedCommands, AFullDiskMeansNotCachedAndOneWarning) {
  for (const char* full : {"full:0", "full:5000", "full:300000"}) {
    fs::remove_all(cache_);
    const ProcessResult result = order(cache(), disk(full));
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, samples_);
    EXPECT_EQ(count_of(result.err, "warning: cache: writing to "), 1U) << result.err;
    EXPECT_EQ(order(cache()).out, samples_) << "the next one uses what is there";
  }
}

TEST_F(CachedCommands, FlippedBitsCostARequestAndNoSample) {
  ASSERT_EQ(order(cache()).status, 0);
  std::mt19937 random(3);
  for (int i = 0; i < 12; ++i) {
    for (const auto& file : fs::recursive_directory_iterator(cache_)) {
      if (!file.is_regular_file() || file.path().extension() != ".shard") continue;
      std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>(random() % fs::file_size(file.path()));
      bytes.seekg(at);
      const int byte = bytes.get();
      bytes.seekp(at);
      bytes.put(static_cast<char>(byte ^ (1 << random() % 8)));
    }
    const ProcessResult result = order(cache());
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, samples_);
  }
}

TEST_F(CachedCommands, VerifyAndPruneSayWhatTheyDid) {
  ASSERT_EQ(order(cache()).status, 0);
  const std::string path =
      json_lines(millrace({"cache", "ls", "--json", cache_}).out).at(0)["path"];
  std::string bytes = read_file(path);
  bytes[5000] ^= 1;
  write_file(path, bytes);
  const ProcessResult verified = millrace({"cache", "verify", cache_});
  EXPECT_EQ(verified.status, 1);
  EXPECT_THAT(verified.out, HasSubstr("4 entries verified, 1 damaged and removed"));
  EXPECT_THAT(verified.err, HasSubstr("1 entry damaged"));
  const std::string pruned = millrace({"cache", "prune", cache_, "--cache-size", "0"}).out;
  EXPECT_THAT(pruned, HasSubstr("3 entries removed"));
  EXPECT_EQ(count_of(pruned, server_->url("set-")), 3U) << pruned;
  EXPECT_EQ(millrace({"cache", "ls", cache_}).out, "0 entries, 0 bytes\n");
}

TEST(CacheOptions, AreCheckedBeforeAnythingIsRead) {
  const TempDir dir;
  const std::string spec = make_set(dir, 4, 4);
  const auto says = [](const std::vector<std::string>& words, const std::string& text) {
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 2) << words.back() << result.err;
    EXPECT_THAT(result.err, HasSubstr(text));
  };
  says({"ls", spec, "--cache-size", "1GiB"}, "--cache-size needs --cache");
  says({"ls", spec, "--cache", dir / "c", "--cache-size", "much"}, "--cache-size");
  says({"ls", spec, "--cache", dir / "c", "--cache-size", "0"}, "--cache-size");
  says({"ls", spec, "--cache", "s3://bucket/cache"},
       "--cache takes a folder of this machine, not a URL");
  says({"ls", spec, "--cache", ""}, "--cache: needs a folder");
  says({"cache", "list", dir / "c"}, "list");
  says({"cache", "ls", dir / "c"}, "no such folder");
  EXPECT_FALSE(fs::exists(dir / "c"));
  fs::create_directory(dir / "c");
  says({"cache", "ls", dir / "c", "--cache-size", "1GiB"}, "--cache-size belongs to prune");
  says({"cache", "prune", dir / "c", "--cache-size", "x"}, "--cache-size");
}

}  // namespace
}  // namespace millrace::testing
