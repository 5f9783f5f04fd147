// train, killed at any instant: in a step, while it saves, in an evaluation, between epochs. What
// resumes it, with other devices too, comes to the weights of a run that nobody killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "io/base/rng.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

constexpr std::int64_t kGlobalBatch = 16;

class KillAndResume : public ::testing::Test {
 protected:
  /// LeNet, which has no batch norm: 2 epochs of 6 steps and an evaluation each.
  ProcessResult train(const std::string& run, int devices, const std::string& disk,
                      const std::vector<std::string>& more = {},
                      std::int64_t global_batch = kGlobalBatch) const {
    std::vector<std::string> words = {"train",
                                      "--train",
                                      spec_,
                                      "--val",
                                      spec_,
                                      "--model",
                                      "lenet",
                                      "--size",
                                      "16",
                                      "--classes",
                                      "10",
                                      "--precision",
                                      "fp32",
                                      "--lr",
                                      "0.02",
                                      "--warmup-steps",
                                      "0",
                                      "--epochs",
                                      "2",
                                      "--shuffle",
                                      "20",
                                      "--streams",
                                      "4",
                                      "--channels",
                                      "3",
                                      "--log-steps",
                                      "0",
                                      "--seed",
                                      "3",
                                      "--save-every-steps",
                                      "1",
                                      "--devices",
                                      std::to_string(devices),
                                      "--batch-size",
                                      std::to_string(global_batch / devices),
                                      "--run-dir",
                                      dir_ / run};
    words.insert(words.end(), more.begin(), more.end());
    if (disk.empty()) return millrace(words);
    return millrace(words, {.environment = {{"LD_PRELOAD", MILLRACE_FAULTY_DISK},
                                            {"MILLRACE_TEST_DISK", disk},
                                            {"ASAN_OPTIONS", "verify_asan_link_order=0"}}});
  }

  std::string weights(const std::string& run) const {
    return read_file(dir_ / (run + "/checkpoints/last/model.safetensors"));
  }

  const TempDir dir_;
  const std::string spec_ = make_set(dir_, 92, 23);
};

/// The largest difference of two files of float32 tensors with the same header.
double distance(const std::string& one, const std::string& other) {
  std::uint64_t header = 0;
  std::memcpy(&header, one.data(), sizeof(header));
  EXPECT_EQ(one.size(), other.size());
  EXPECT_EQ(one.substr(0, header + 8), other.substr(0, header + 8));
  double most = 0;
  for (std::size_t at = header + 8; at + 4 <= std::min(one.size(), other.size()); at += 4) {
    float a = 0;
    float b = 0;
    std::memcpy(&a, one.data() + at, sizeof(a));
    std::memcpy(&b, other.data() + at, sizeof(b));
    most = std::max(most, std::abs(static_cast<double>(a) - b));
  }
  return most;
}

TEST_F(KillAndResume, EndsWithTheSameWeightsOnAnyNumberOfDevices) {
  for (const int devices : {1, 2, 4}) {
    const auto whole = train("whole-" + std::to_string(devices), devices, "");
    ASSERT_EQ(whole.status, 0) << whole.err;
  }
  const std::string expected = weights("whole-2");
  KeyedRng rng({.seed = 12});
  int killed = 0;
  for (int i = 0; i < 20; ++i) {
    const std::string run = "run-" + std::to_string(i);
    const auto call = 1 + rng.below(550);
    const auto broken = train(run, 2, "kill:" + std::to_string(call));
    if (broken.status == 128 + SIGKILL) ++killed;
    const int devices = i % 2 == 0 ? 2 : (i % 4 == 1 ? 1 : 4);
    const auto resumed = train(run, devices, "", {"--resume", "auto"});
    ASSERT_EQ(resumed.status, 0) << "killed at call " << call << ": " << resumed.err;
    if (devices == 2) {
      EXPECT_TRUE(weights(run) == expected) << "killed at call " << call;
    } else {
      EXPECT_LT(distance(weights(run), expected), 1e-6)
          << "killed at call " << call << ", then on " << devices << " devices";
    }
    std::filesystem::remove_all(dir_ / run);
  }
  EXPECT_GE(killed, 15) << "most of the runs were killed before their end";
}

TEST_F(KillAndResume, AnotherGlobalBatchIsRefusedBeforeTheFirstStep) {
  ASSERT_EQ(train("run", 2, "kill:150").status, 128 + SIGKILL);
  const auto refused = train("run", 1, "", {"--resume", "auto"}, 8);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, ::testing::AllOf(::testing::HasSubstr("a batch size of 16 continues it"),
                                            ::testing::Not(::testing::HasSubstr("train begin"))));
}

}  // namespace
}  // namespace millrace::testing
