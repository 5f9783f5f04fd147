// Training over HTTP while the server misbehaves: the same losses, or a fault with its location.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/support/nginx.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

class TrainOverHttp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
    make_set(dir_, 600, 200);
  }

  static ProcessResult train(const std::string& spec) {
    return millrace({"train",      "--train", spec,           "--model", "lenet",       "--json",
                     "--channels", "3",       "--classes",    "10",      "--devices",   "2",
                     "--size",     "16",      "--batch-size", "16",      "--log-steps", "1",
                     "--shuffle",  "50",      "--run-dir",    "none"});
  }
  static std::vector<double> losses(const ProcessResult& result) {
    std::vector<double> losses;
    for (const auto& event : json_lines(result.out))
      if (event["event"] == "step") losses.push_back(event["loss"]);
    return losses;
  }
  static std::string spec() { return "set-{000000..000002}.tar"; }

  TempDir dir_;
};

TEST_F(TrainOverHttp, AServerThatIsRestartedInMidEpochIsNotSeenInTheLosses) {
  const ProcessResult local = train(dir_ / spec());
  ASSERT_EQ(local.status, 0) << local.err;
  // Each shard takes about two seconds, so that the restart hits the middle of all three.
  const auto shard_bytes = std::filesystem::file_size(dir_ / "set-000000.tar");
  Nginx nginx(dir_.path(),
              {.location_lines = "limit_rate " + std::to_string(shard_bytes / 2) + ";"});
  std::jthread restart([&nginx] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    nginx.stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    nginx.start();
  });
  const ProcessResult remote = train(nginx.url(spec()));
  restart.join();
  ASSERT_EQ(remote.status, 0) << remote.err;
  EXPECT_THAT(nginx.access_log(), HasSubstr("bytes=")) << "no transfer was broken off";
  EXPECT_EQ(losses(remote), losses(local));
}

TEST_F(TrainOverHttp, AShardCutInHalfEndsTheRunWithItsNameAndOffset) {
  const std::string path = dir_ / "set-000001.tar";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2 + 100);
  Nginx nginx(dir_.path());
  const ProcessResult result = train(nginx.url(spec()));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("Truncated"));
  EXPECT_THAT(result.err, HasSubstr("set-000001.tar"));
  EXPECT_THAT(result.err, HasSubstr("offset"));
}

TEST_F(TrainOverHttp, SwappedShardsAreNotContinuedWith) {
  Nginx nginx(dir_.path());
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "train",     "--train", nginx.url(spec()), "--model", "lenet",     "--channels", "3",
        "--classes", "10",      "--size",          "16",      "--run-dir", dir_ / "run"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  };
  ASSERT_EQ(train({}).status, 0);
  std::filesystem::rename(dir_ / "set-000001.tar", dir_ / "other.tar");
  std::filesystem::rename(dir_ / "set-000002.tar", dir_ / "set-000001.tar");
  std::filesystem::rename(dir_ / "other.tar", dir_ / "set-000002.tar");
  const std::vector<std::string> resume = {"--resume", "auto", "--epochs", "2"};
  const ProcessResult refused = train(resume);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("the training set has changed since the checkpoint: shard "
                                     "set-000001.tar: "));
  auto accepted = resume;
  accepted.push_back("--accept-changed-data");
  EXPECT_EQ(train(accepted).status, 0);
}

}  // namespace
}  // namespace millrace::testing
