// The order in which a run calls its hooks.
#include "trainer/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "io/base/error.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/fakes.h"
#include "trainer/fit.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::LocalThreads;
using testing::make_samples;
using testing::MemoryFeed;

std::string at(const char* hook, std::int64_t number) {
  return std::string(hook) + " " + std::to_string(number);
}

std::string at(const char* hook, const std::string& path) {
  return std::string(hook) + " " + std::filesystem::path(path).filename().string();
}

/// Records every call.
class Diary final : public Observer {
 public:
  void on_fit_start() override { calls.emplace_back("fit start"); }
  void on_epoch_start(std::int64_t epoch) override { calls.push_back(at("epoch start", epoch)); }
  void on_step_start(const StepStart& step) override {
    calls.push_back(at("step start", step.global_step));
  }
  void on_step(const StepEvent& event) override { calls.push_back(at("step", event.global_step)); }
  void on_log_step(const StepEvent& event) override {
    calls.push_back(at("log step", event.global_step));
  }
  void on_train_end(const EpochEvent& event) override {
    calls.push_back(at("train end", event.epoch));
  }
  void on_evaluation_start(std::int64_t epoch) override {
    calls.push_back(at("evaluation start", epoch));
  }
  void on_evaluation_step(std::int64_t batches) override {
    calls.push_back(at("evaluation step", batches));
  }
  void on_evaluation_end(const EpochEvent& event) override {
    calls.push_back(at("evaluation end", event.epoch));
    measured.push_back(find_value(event.val, "loss").value_or(-1));
  }
  void on_epoch_end(const EpochEvent& event) override {
    calls.push_back(at("epoch end", event.epoch));
  }
  void on_checkpoint_start(const std::string& path) override {
    calls.push_back(at("checkpoint start", path));
  }
  void on_checkpoint(const std::string& path) override { calls.push_back(at("checkpoint", path)); }
  void on_saved(const SavedEvent& event) override {
    calls.push_back("saved " + std::to_string(event.epoch));
  }
  void on_fit_end(const EndEvent& /*event*/) override { calls.emplace_back("fit end"); }
  void on_fault(const FaultEvent& event) override { calls.push_back(at("fault", event.epoch)); }

  std::vector<std::string> calls;
  std::vector<double> measured;
};

/// Notes how far saves are, of which each takes three seconds.
class SlowSaves final : public Observer {
 public:
  void on_checkpoint_step(const CheckpointStep& step) override {
    if (steps.empty() || steps.back().path != step.path) clock.advance(std::chrono::seconds(3));
    steps.push_back(step);
  }

  std::vector<CheckpointStep> steps;
  testing::FakeClock clock;
};

constexpr std::int64_t kObservedFeatures = 6;
constexpr std::int64_t kObservedClasses = 2;

/// Two devices, one epoch of two steps, an evaluation of one batch each.
FitResult run(Observer& diary, TrainOptions options, std::int64_t wrong_label = -1) {
  auto samples = make_samples(16, kObservedFeatures, kObservedClasses, 1);
  if (wrong_label >= 0) samples[15].label = wrong_label;
  MemoryFeed train(std::move(samples), 4, 2);
  MemoryFeed val(make_samples(8, kObservedFeatures, kObservedClasses, 2), 4, 2);
  const testing::LinearModel model(kObservedFeatures, kObservedClasses);
  const LossObjective objective({.inputs = {"x"}, .heads = {Head{}}});
  LocalThreads devices(2);
  options.precision = nn::Precision::kFloat32;
  options.optimizer.rule = Sgd{.lr = 0.01, .momentum = 0};
  return fit({.model = model,
              .objective = objective,
              .train = train,
              .validation = &val,
              .devices = devices},
             options, {&diary});
}

TEST(Observer, IsToldHowFarASaveIsAndTheLogOfALongOne) {
  const testing::TempDir folder;
  SlowSaves diary;
  std::vector<std::string> said;
  TrainOptions options;
  options.clock = &diary.clock;
  options.run_folder = folder / "run";
  options.checkpoint.save_best = false;
  options.log = Log::to_function([&](LogLevel, const std::string& line) {
    if (line.starts_with("saving")) said.push_back(line);
  });
  run(diary, options);
  ASSERT_FALSE(diary.steps.empty());
  const CheckpointStep& last = diary.steps.back();
  EXPECT_EQ(last.path, folder / "run/checkpoints/last");
  EXPECT_EQ(last.share, 1) << "written and read back";
  EXPECT_GT(last.bytes, kObservedFeatures * kObservedClasses * sizeof(float));
  EXPECT_TRUE(std::ranges::is_sorted(diary.steps, {}, &CheckpointStep::share));
  ASSERT_EQ(said.size(), 1U) << "once";
  EXPECT_THAT(said[0], ::testing::HasSubstr("checkpoints/last: "));
}

TEST(Observer, IsCalledAtTheUsualPlacesInOrder) {
  const testing::TempDir folder;
  Diary diary;
  TrainOptions options;
  options.log_steps = 2;
  options.sanity_val_steps = 1;
  options.run_folder = folder / "run";
  const FitResult result = run(diary, options);
  EXPECT_THAT(diary.calls, ElementsAreArray({"fit start",
                                             "evaluation start 0",
                                             "evaluation step 1",
                                             "evaluation end 0",
                                             "epoch start 1",
                                             "step start 1",
                                             "step 1",
                                             "step start 2",
                                             "step 2",
                                             "log step 2",
                                             "train end 1",
                                             "evaluation start 1",
                                             "evaluation step 1",
                                             "evaluation end 1",
                                             "epoch end 1",
                                             "checkpoint start best",
                                             "checkpoint best",
                                             "checkpoint start last",
                                             "checkpoint last",
                                             "saved 1",
                                             "fit end"}));
  ASSERT_EQ(2U, diary.measured.size());
  const EpochEvent& epoch = result.epochs[0];
  EXPECT_EQ(*find_value(epoch.val, "loss"), diary.measured[1]);
  EXPECT_GE(epoch.seconds, epoch.train_seconds + epoch.val_seconds);
}

TEST(Observer, AFailedStepHasAStartAndNoEnd) {
  Diary diary;
  EXPECT_THROW(run(diary, {}, kObservedClasses), Error);
  EXPECT_THAT(diary.calls, ElementsAre("fit start", "epoch start 1", "step start 1", "step 1",
                                       "step start 2", "fault 1"));
}

}  // namespace
}  // namespace millrace::trainer
