#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/detail/stall.h"
#include "trainer/events.h"
#include "trainer/log_lines.h"
#include "trainer/meter.h"
#include "trainer/progress_bar.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(LogLines, HaveTheFormThatScriptsRead) {
  const StepEvent event{.rank = 2,
                        .device = "cpu:0",
                        .epoch = 8,
                        .step = 310,
                        .loss = 0.26758,
                        .rate = 1079.01,
                        .global_rate = 1420.67};
  EXPECT_EQ(
      "Training Device=cpu:0/2 Epoch=8 Step=310 Loss=0.26758 Rate=1079.01 GlobalRate=1420.67 "
      "Time=18:02:10",
      training_line(event, "18:02:10"));
  EpochEvent epoch;
  epoch.epoch = 8;
  epoch.train_seconds = 28.4;
  epoch.replica_train_samples = 39664;
  epoch.rate = 45676.5;
  EXPECT_EQ(
      "Epoch 8 train end 18:02:10, Epoch Time=0:00:28, Replica Train Samples=39664, Reduced "
      "GlobalRate=45676.50",
      epoch_end_line(epoch, "18:02:10"));
  EXPECT_EQ("27:46:40", duration_text(100'000));
}

TEST(RateMeter, SmoothsSixtyToForty) {
  const RateMeter::Clock::time_point start{};
  RateMeter meter(start);
  meter.add(100);
  meter.mark(start + std::chrono::seconds(1));
  EXPECT_DOUBLE_EQ(100.0, meter.rate());
  meter.add(200);
  meter.mark(start + std::chrono::seconds(2));
  EXPECT_DOUBLE_EQ(0.6 * 200.0 + 0.4 * 100.0, meter.rate());
  EXPECT_DOUBLE_EQ(150.0, meter.global_rate(start + std::chrono::seconds(2)));
}

TEST(AverageMeter, WeightsByValidSamples) {
  AverageMeter meter;
  meter.add(8.0, 8.0);
  meter.add(6.0, 2.0);
  meter.add(99.0, 0.0);
  EXPECT_DOUBLE_EQ(3.0, meter.value());
  EXPECT_DOUBLE_EQ(1.4, meter.average());
}

TEST(StallReport, NamesTheBoundAndTheStepWithFreeBatches) {
  const StepTimes busy{.wait = 0.1, .forward = 4, .backward = 5, .reduce = 0.5, .update = 0.4};
  const StallReport compute = detail::make_stall_report({busy, busy}, 10, "decode");
  EXPECT_THAT(compute.verdict, StartsWith("compute-bound"));
  EXPECT_NEAR(0.99, compute.free_input_step, 1e-12);
  StepTimes starved = busy;
  starved.wait = 10;
  const StallReport input = detail::make_stall_report({starved}, 10, "decode");
  EXPECT_THAT(input.verdict, StartsWith("input-bound by decode"));
  EXPECT_NEAR(0.99, input.free_input_step, 1e-12);
}

TEST(Events, AreOneJsonObjectEach) {
  EpochEvent event;
  event.train = {{"loss", 0.5}};
  event.val = {{"loss", 0.25}, {"top1", 0.75}};
  event.train_samples = 10;
  const std::string json = to_json(event);
  EXPECT_THAT(json, HasSubstr(R"("event":"epoch","epoch":1,"train_loss":0.5,"train_samples":10,)"
                              R"("val_loss":0.25,"val_top1":0.75)"));
  EXPECT_THAT(to_json(EndEvent{}), HasSubstr(R"("best":null)"));
}

TEST(ProgressBar, FitsItsTerminal) {
  const StepEvent event{.epoch = 3, .step = 222, .steps_per_epoch = 391, .mean_loss = 0.2676};
  const std::string line = ProgressBar::text(event, 79);
  EXPECT_LE(line.size(), 79U);
  EXPECT_THAT(line, HasSubstr("57 % 222/391"));
  EXPECT_LE(ProgressBar::text(event, 20).size(), 20U);
}

}  // namespace
}  // namespace millrace::trainer
