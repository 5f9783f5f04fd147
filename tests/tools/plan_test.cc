// plan: its figures against arithmetic, and against a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

nlohmann::json plan(std::vector<std::string> words) {
  words.insert(words.begin(), {"plan", "--json"});
  const ProcessResult result = millrace(words);
  EXPECT_EQ(result.status, 0) << result.err;
  const auto lines = json_lines(result.out);
  return lines.size() == 1 ? lines.front() : nlohmann::json();
}

TEST(Plan, HasAsManyStepsAsARun) {
  const TempDir dir;
  const ProcessResult run = millrace(
      {"train", "--fake-data", "1000", "--model", "lenet", "--classes", "10", "--devices", "2",
       "--batch-size", "64", "--epochs", "1", "--run-dir", "none", "--log-steps", "1", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  std::int64_t steps = 0;
  for (const auto& line : json_lines(run.out))
    if (line.at("event") == "step") steps = std::max(steps, line.at("step").get<std::int64_t>());
  const auto planned = plan({"--samples", "1000", "--processes", "1", "--devices", "2"});
  EXPECT_EQ(planned.at("steps_per_epoch"), steps);
  EXPECT_NEAR(planned.at("masked_share"), 1.0 - 1000.0 / (8 * 128), 1e-9);
  EXPECT_EQ(planned.at("reduce_exposed_s"), 0.0) << "one process sums in its own memory";
}

TEST(Plan, WholeShardsAreFewForMany) {
  const auto planned = plan({"--samples", "1000", "--shards", "10", "--processes", "4"});
  EXPECT_NEAR(planned.at("imbalance"), 300.0 / 250.0, 1e-9);
  EXPECT_EQ(planned.at("steps_per_epoch"), 5) << "of the process that has three shards";
}

TEST(Plan, ThousandsOfProcessesAreEfficientWhereStepsAreLong) {
  const std::vector<std::string> common{"--model",     "resnet50", "--step-ms",  "2800",
                                        "--bandwidth", "25",       "--processes"};
  for (const char* processes : {"8", "1024", "100000"}) {
    auto words = common;
    words.emplace_back(processes);
    const auto planned = plan(words);
    EXPECT_EQ(planned.at("parameters"), 25'557'032);
    EXPECT_GT(planned.at("step_s").get<double>(), 2.8);
    const double most = std::string(processes) == "100000" ? 1e9 : 2.95;
    EXPECT_LT(planned.at("step_s").get<double>(), most);
  }
}

TEST(Plan, RefusesMoreProcessesThanSamples) {
  const ProcessResult result = millrace({"plan", "--samples", "3", "--processes", "4"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("there are 3 samples"));
}

}  // namespace
}  // namespace millrace::testing
