#include "trainer/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "io/base/error.h"
#include "io/component/component_text.h"
#include "tests/support/num_members.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/schedules/constant.h"
#include "trainer/schedules/cosine.h"
#include "trainer/schedules/exponential.h"
#include "trainer/schedules/linear.h"
#include "trainer/schedules/multi_step.h"
#include "trainer/schedules/one_cycle.h"
#include "trainer/schedules/step.h"

namespace millrace::trainer {
namespace {

using namespace schedules;  // NOLINT: their names are this test's subject

float at_epoch(const Schedule& schedule, std::int64_t epoch) {
  return schedule.lr({.epoch = epoch});
}

TEST(Schedule, StepCutsEveryStepEpochs) {
  const Schedule schedule(Step{.every = 3, .gamma = 0.5}, {.base_lr = 1.0});
  EXPECT_FLOAT_EQ(1.0F, at_epoch(schedule, 2));
  EXPECT_FLOAT_EQ(0.5F, at_epoch(schedule, 3));
  EXPECT_FLOAT_EQ(0.125F, at_epoch(schedule, 9));
}

TEST(Schedule, MultiStepCutsAtItsMilestones) {
  const Schedule schedule(MultiStep{.milestones = {2.0, 4.0}, .gamma = 0.1}, {.base_lr = 1.0});
  EXPECT_FLOAT_EQ(1.0F, at_epoch(schedule, 1));
  EXPECT_FLOAT_EQ(0.1F, at_epoch(schedule, 2));
  EXPECT_FLOAT_EQ(0.01F, at_epoch(schedule, 4));
}

TEST(Schedule, StepWithWarmupRisesOverNineTenthsOfAnEpoch) {
  const Schedule schedule(parse("step(2, gamma=0.2, warmup=0.9ep)", standard_schedules()).front(),
                          {.base_lr = 0.4});
  EXPECT_FLOAT_EQ(0.0F, schedule.lr({.epoch = 0, .step = 0, .steps_per_epoch = 100}));
  EXPECT_FLOAT_EQ(0.2F, schedule.lr({.epoch = 0, .step = 45, .steps_per_epoch = 100}));
  EXPECT_FLOAT_EQ(0.4F, schedule.lr({.epoch = 0, .step = 90, .steps_per_epoch = 100}));
  EXPECT_FLOAT_EQ(0.4F, schedule.lr({.epoch = 1, .step = 99, .steps_per_epoch = 100}));
  EXPECT_FLOAT_EQ(0.08F, schedule.lr({.epoch = 2, .step = 0, .steps_per_epoch = 100}));
}

TEST(Schedule, CosinePerStepEndsAtItsMinimum) {
  const Schedule schedule(Cosine{.final_rate = 0.2, .pace = {.unit = RateUnit::kStep}},
                          {.base_lr = 1.0, .epochs = 2.0});
  EXPECT_FLOAT_EQ(1.0F, schedule.lr({.steps_per_epoch = 10}));
  EXPECT_FLOAT_EQ(0.6F, schedule.lr({.epoch = 1, .steps_per_epoch = 10}));
  EXPECT_FLOAT_EQ(0.2F, schedule.lr({.epoch = 2, .steps_per_epoch = 10}));
}

TEST(Schedule, LinearWarmupGoesBeforeAnySchedule) {
  const Schedule schedule(
      Step{.every = 1, .gamma = 0.5, .pace = {.warmup = RunLength{.count = 2}, .start = 0.1}},
      {.base_lr = 1.0});
  EXPECT_EQ(8, schedule.warmup_steps(4));
  EXPECT_EQ(0, schedule.warmup_steps()) << "an epoch's steps are unknown";
  EXPECT_FLOAT_EQ(0.1F, schedule.lr({.steps_per_epoch = 4}));
  EXPECT_FLOAT_EQ(0.325F, schedule.lr({.step = 2, .steps_per_epoch = 4}));
  EXPECT_FLOAT_EQ(0.5F * 0.55F, schedule.lr({.epoch = 1, .steps_per_epoch = 4}));
  EXPECT_FLOAT_EQ(0.25F, schedule.lr({.epoch = 2, .steps_per_epoch = 4}));
}

TEST(Schedule, WarmupInStepsNeedsNoLengthOfAnEpoch) {
  const RunLength steps = {.count = 8, .unit = RunLength::Unit::kSteps};
  const Schedule schedule(Step{.every = 1, .gamma = 0.5, .pace = {.warmup = steps, .start = 0.2}},
                          {.base_lr = 1.0});
  EXPECT_EQ(8, schedule.warmup_steps());
  EXPECT_EQ(8, schedule.warmup_steps(100));
  EXPECT_FALSE(schedule.needs_steps_per_epoch());
  EXPECT_FLOAT_EQ(0.3F, schedule.lr({.global_step = 0}));
  EXPECT_FLOAT_EQ(0.6F, schedule.lr({.step = 3, .global_step = 3}));
  EXPECT_FLOAT_EQ(0.4F, schedule.lr({.epoch = 1, .step = 0, .global_step = 5}));
  EXPECT_FLOAT_EQ(0.5F, schedule.lr({.epoch = 1, .step = 2, .global_step = 7}));
}

TEST(Schedule, NeedsToKnowTheStepsOfAnEpoch) {
  const Schedule schedule(Cosine{.pace = {.unit = RateUnit::kStep}}, {});
  EXPECT_TRUE(schedule.needs_steps_per_epoch());
  EXPECT_THROW(schedule.lr({.epoch = 0}), Error);
  EXPECT_FALSE(Schedule(Cosine(), {}).needs_steps_per_epoch());
  EXPECT_TRUE(Schedule(OneCycle(), {}).needs_steps_per_epoch()) << "by step";
}

TEST(Schedule, RefusesWhatCannotWork) {
  EXPECT_THROW(Schedule(Constant(), {.base_lr = -1.0}), Error);
  EXPECT_THROW(Schedule(Constant(), {.base_lr = 1e39}), Error);
  EXPECT_THROW(Schedule(Constant(), {.epochs = 0.0}), Error);
  EXPECT_THROW(Schedule(MultiStep{.milestones = {3.0, 1.0}}, {}), Error);
  EXPECT_THROW(Schedule(MultiStep(), {}), Error);
  EXPECT_THROW(Schedule(Step{.every = 0}, {}), Error);
  EXPECT_THROW(Schedule(OneCycle{.rise = 1.0}, {}), Error);
  EXPECT_THROW(parse("cosin", standard_schedules()), Error);
}

TEST(Schedule, EachMemberIsListed) {
  const auto num_listed = [](auto one) { return millrace::value_type(one).fields(&one).size(); };
  constexpr std::size_t kPace = num_members<Pace>() - 1;  // its fields stand for the member
  EXPECT_EQ(num_members<Constant>() + kPace, num_listed(Constant()));
  EXPECT_EQ(num_members<Step>() + kPace, num_listed(Step()));
  EXPECT_EQ(num_members<MultiStep>() + kPace, num_listed(MultiStep()));
  EXPECT_EQ(num_members<Exponential>() + kPace, num_listed(Exponential()));
  EXPECT_EQ(num_members<Cosine>() + kPace, num_listed(Cosine()));
  EXPECT_EQ(num_members<Linear>() + kPace, num_listed(Linear()));
  EXPECT_EQ(num_members<OneCycle>(), num_listed(OneCycle()));
}

std::vector<float> per_step(const Schedule& schedule, int epochs, int steps) {
  std::vector<float> rates;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (int step = 0; step < steps; ++step) {
      rates.push_back(schedule.lr({.epoch = epoch, .step = step, .steps_per_epoch = steps}));
    }
  }
  return rates;
}

void expect_torch(const std::string& scheduler, const std::vector<float>& ours) {
  const auto expected = testing::run_torch(
      "import warnings; warnings.simplefilter('ignore')\n"
      "from torch.optim.lr_scheduler import *\n"
      "w = torch.zeros(1).requires_grad_()\n"
      "opt = torch.optim.SGD([w], lr=0.5)\n"
      "s = " +
      scheduler +
      "\n"
      "for i in range(" +
      std::to_string(ours.size()) +
      "):\n"
      "  print(repr(opt.param_groups[0]['lr']))\n"
      "  opt.step(); s.step()\n");
  if (!expected) GTEST_SKIP() << "no Python with torch";
  ASSERT_EQ(ours.size(), expected->size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR((*expected)[i], ours[i], 1e-6) << i;
}

TEST(Schedule, CosineFollowsTorch) {
  const Schedule schedule(Cosine{.final_rate = 0.1, .pace = {.unit = RateUnit::kStep}},
                          {.base_lr = 0.5, .epochs = 3.0});
  expect_torch("CosineAnnealingLR(opt, 30, 0.1)", per_step(schedule, 3, 10));
}

TEST(Schedule, LinearFollowsTorch) {
  const Schedule schedule(Linear{.final_rate = 0.1, .pace = {.unit = RateUnit::kStep}},
                          {.base_lr = 0.5, .epochs = 3.0});
  expect_torch("LinearLR(opt, 1.0, 0.2, 30)", per_step(schedule, 3, 10));
}

TEST(Schedule, OneCycleFollowsTorch) {
  const Schedule schedule(OneCycle(), {.base_lr = 0.5, .epochs = 3.0});
  expect_torch("OneCycleLR(opt, max_lr=0.5, total_steps=30)", per_step(schedule, 3, 10));
}

TEST(Schedule, OneCycleOfFewStepsEndsWithItsLastRate) {
  const Schedule schedule(OneCycle{.rise = 0.5}, {.base_lr = 0.5, .epochs = 2.0});
  expect_torch("OneCycleLR(opt, max_lr=0.5, total_steps=14, pct_start=0.5)",
               per_step(schedule, 2, 7));
  EXPECT_NEAR(0.5 / 25 / 1e4, per_step(schedule, 2, 7).back(), 1e-9);
  const Schedule one(OneCycle(), {.base_lr = 0.5, .epochs = 1.0});
  EXPECT_NEAR(0.5 / 25 / 1e4, per_step(one, 1, 1).back(), 1e-9) << "as torch's of one step";
}

/// torchvision's references: SequentialLR([LinearLR, the schedule]).
void expect_sequential(const std::string& call, int epochs, int steps, const std::string& start,
                       const std::string& rise, const std::string& main) {
  const Schedule schedule(parse(call, standard_schedules()).front(),
                          {.base_lr = 0.5, .epochs = static_cast<double>(epochs)});
  std::vector<float> ours;
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (int step = 0; step < std::max(1, steps); ++step)
      ours.push_back(schedule.lr({.epoch = epoch,
                                  .step = step,
                                  .steps_per_epoch = steps,
                                  .global_step = epoch * steps + step}));
  expect_torch("SequentialLR(opt, [LinearLR(opt, " + start + ", total_iters=" + rise + "), " +
                   main + "], milestones=[" + rise + "])",
               ours);
}

TEST(Schedule, BehindItsWarmupFollowsTorchByEpoch) {
  expect_sequential("cosine(warmup=5ep, warmup_start=0.01, after_warmup)", 20, 0, "0.01", "5",
                    "CosineAnnealingLR(opt, T_max=15, eta_min=0)");
  expect_sequential("cosine(0.1, warmup=2ep, warmup_start=0.1, after_warmup)", 7, 0, "0.1", "2",
                    "CosineAnnealingLR(opt, T_max=5, eta_min=0.1)");
  expect_sequential("step(3, warmup=2ep, warmup_start=0.1, after_warmup)", 12, 0, "0.1", "2",
                    "StepLR(opt, step_size=3, gamma=0.1)");
  expect_sequential("multi-step([2, 5], warmup=3ep, warmup_start=0.5, after_warmup)", 10, 0, "0.5",
                    "3", "MultiStepLR(opt, [2, 5])");
  expect_sequential("exponential(0.7, warmup=3ep, warmup_start=0.5, after_warmup)", 10, 0, "0.5",
                    "3", "ExponentialLR(opt, 0.7)");
}

TEST(Schedule, BehindItsWarmupFollowsTorchByStep) {
  const std::string cosine = "CosineAnnealingLR(opt, T_max=57)";
  expect_sequential("cosine(warmup=13steps, warmup_start=0.01, by=step, after_warmup)", 7, 10,
                    "0.01", "13", cosine);
  expect_sequential("cosine(warmup=1.3ep, warmup_start=0.01, by=step, after_warmup)", 7, 10, "0.01",
                    "13", cosine);
  expect_sequential("step(1, warmup=13steps, warmup_start=0.2, by=step, after_warmup)", 7, 10,
                    "0.2", "13", "StepLR(opt, step_size=10)");
}

TEST(Schedule, BehindItsWarmupNeedsTheStepsOfAnEpochWhereItsUnitsDiffer) {
  const auto needs = [](const std::string& call) {
    return Schedule(parse(call, standard_schedules()).front(), {.epochs = 9.0})
        .needs_steps_per_epoch();
  };
  EXPECT_FALSE(needs("cosine(warmup=5ep, after_warmup)"));
  EXPECT_TRUE(needs("cosine(warmup=5steps, after_warmup)"));
  EXPECT_TRUE(needs("cosine(warmup=5ep, by=step, after_warmup)"));
  EXPECT_FALSE(needs("cosine(after_warmup)"));
  const Schedule all(parse("cosine(warmup=9ep, after_warmup)", standard_schedules()).front(),
                     {.base_lr = 0.9, .epochs = 3.0});
  EXPECT_FLOAT_EQ(0.2F, all.lr({.epoch = 2})) << "a run that is over before the warm-up";
}

TEST(Schedule, ExponentialFollowsTorch) {
  const Schedule schedule(Exponential{.gamma = 0.9}, {.base_lr = 0.5});
  std::vector<float> rates;
  for (int epoch = 0; epoch < 10; ++epoch) rates.push_back(at_epoch(schedule, epoch));
  expect_torch("ExponentialLR(opt, 0.9)", rates);
}

}  // namespace
}  // namespace millrace::trainer
