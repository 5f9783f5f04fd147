// train: its devices, its repeatability, and what it skips.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A run of LeNet on 48 synthetic pictures; every step's line on standard error.
ProcessResult train(const std::vector<std::string>& more, const char* lr = "0.05") {
  std::vector<std::string> words = {"train",
                                    "--fake-data",
                                    "48",
                                    "--run-dir",
                                    "none",
                                    "--model",
                                    "lenet",
                                    "--channels",
                                    "3",
                                    "--size",
                                    "16",
                                    "--classes",
                                    "10",
                                    "--lr",
                                    lr,
                                    "--json",
                                    "--warmup-steps",
                                    "0",
                                    "--log-steps",
                                    "1",
                                    "--precision",
                                    "fp32",
                                    "--batch-size",
                                    "8"};
  words.insert(words.end(), more.begin(), more.end());
  return millrace(words);
}

std::vector<double> losses(const ProcessResult& result) {
  EXPECT_EQ(result.status, 0) << result.err;
  std::vector<double> values;
  for (const auto& event : json_lines(result.out))
    if (event["event"] == "step") values.push_back(event["loss"]);
  return values;
}

TEST(TrainDevices, ANumberInBracketsIsThatDeviceAlone) {
  const ProcessResult result = train({"--devices", "[5]"});
  EXPECT_EQ(losses(result).size(), 6U) << "one device takes all the batches";
  EXPECT_THAT(result.err, AllOf(HasSubstr("1 device x batch size 8 = 8 samples"),
                                HasSubstr("Training Device=cpu:5/0"), Not(HasSubstr("cpu:0/"))));
}

TEST(TrainDeterministic, TwoRunsAreOneToTheLastBit) {
  const std::vector<std::string> more = {"--devices", "2",         "--deterministic",
                                         "--augment", "crop-flip", "--seed",
                                         "7",         "--threads", "3"};
  const auto first = losses(train(more));
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first, losses(train(more)));
}

TEST(TrainNonFinite, StepsAreSkippedOnRequest) {
  EXPECT_EQ(train({}, "1e30").status, 1);
  const ProcessResult skipped = train({"--on-non-finite", "skip"}, "1e30");
  EXPECT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_THAT(
      skipped.err,
      HasSubstr("warning: Epoch 1: 5 steps skipped, their loss or gradients were not finite"));
  EXPECT_THAT(skipped.out, HasSubstr(R"("train_samples":8,)")) << "what was skipped is not counted";
}

}  // namespace
}  // namespace millrace::testing
