// Options of fit(), one by one: clipping by value, checkpoints by the clock, the sanity check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "io/base/error.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/fakes.h"
#include "trainer/checkpoint.h"
#include "trainer/fit.h"
#include "trainer/loss/value_losses.h"
#include "trainer/models/models.h"
#include "trainer/run_lock.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using testing::FakeClock;
using ::testing::HasSubstr;
using testing::LinearRun;
using testing::make_samples;
using testing::MemoryFeed;
using testing::weights_in;

/// 7 steps of 16.
testing::LinearRunOptions small(int world) {
  return {.world = world, .batch_size = 16 / world, .samples = 112, .val_samples = 40};
}

/// Plain SGD at rate 1: a step is the clipped gradient itself.
TrainOptions plain_options() {
  return {.precision = nn::Precision::kFloat32,
          .seed = 5,
          .optimizer = {.rule = Sgd{.lr = 1.0, .momentum = 0}}};
}

// It would become a local folder called "http:".
TEST(FitOptions, AUrlThatCannotBeListedIsNotARunFolder) {
  for (const char* url : {"http://host/run", "file:///tmp/run"}) {
    TrainOptions into_folder = plain_options();
    into_folder.run_folder = url;
    EXPECT_THROW(LinearRun(small(1)).run(into_folder), Error) << url;
    TrainOptions checkpoints = plain_options();
    checkpoints.checkpoint.folder = url;
    EXPECT_THROW(LinearRun(small(1)).run(checkpoints), Error) << url;
    EXPECT_THROW(RunLock{url}, Error) << url;
    EXPECT_THROW(save_checkpoint(url, "last", {}, {}), Error) << url;
  }
  EXPECT_FALSE(std::filesystem::exists("http:"));
  EXPECT_FALSE(std::filesystem::exists("file:"));
}

TEST(FitOptions, ClippingByValueBoundsEveryWeightsStep) {
  for (const int world : {1, 2}) {
    const testing::TempDir folder;
    LinearRun run(small(world));
    run.train = MemoryFeed(make_samples(16, LinearRun::kFeatures, LinearRun::kClasses, 1),
                           16 / world, world);
    TrainOptions options = plain_options();
    options.clip.value = 0.001F;
    options.run_folder = folder / "run";
    run.run(options);
    std::vector<float> start(run.model.parameters().padded_size());
    std::vector<float> buffers(run.model.buffers().padded_size());
    run.model.initialise(options.seed, start, buffers);
    const auto after = weights_in(folder / "run/checkpoints/last", run.model);
    float largest = 0.0F;
    for (std::size_t i = 0; i < start.size(); ++i) {
      largest = std::max(largest, std::abs(after[i] - start[i]));
    }
    EXPECT_NEAR(0.001F, largest, 1e-6F) << "world " << world;
  }
}

/// Advances the clock at every step, and records after which steps a checkpoint was written.
class Hourglass final : public Observer {
 public:
  explicit Hourglass(FakeClock& clock) : clock_(clock) {}
  void on_step(const StepEvent& event) override {
    step_ = event.global_step;
    clock_.advance(std::chrono::minutes(1));
  }
  void on_checkpoint(const std::string& path) override {
    saved.push_back(step_);
    in_epoch.push_back(read_checkpoint_state(path).step_in_epoch);
  }
  std::vector<std::int64_t> saved;
  std::vector<std::int64_t> in_epoch;

 private:
  FakeClock& clock_;
  std::int64_t step_ = 0;
};

TEST(FitOptions, SavesLastWhenItsTimeHasCome) {
  const testing::TempDir folder;
  FakeClock clock;
  Hourglass hourglass(clock);
  TrainOptions options = plain_options();
  options.optimizer.rule = Sgd{.lr = 0.05, .momentum = 0};
  options.epochs = 2;
  options.run_folder = folder / "run";
  options.checkpoint.save_best = false;
  options.checkpoint.every = std::chrono::minutes(3);
  options.clock = &clock;
  LinearRun(small(2)).run(options, {&hourglass});
  // Due before a step's batch, saved after that step; an epoch's end restarts the interval.
  EXPECT_THAT(hourglass.saved, ElementsAre(4, 7, 11, 14));
  EXPECT_THAT(hourglass.in_epoch, ElementsAre(4, 0, 4, 0));
}

TEST(FitOptions, TheTimeLimitGoesByTheClock) {
  const testing::TempDir folder;
  FakeClock clock;
  Hourglass hourglass(clock);
  TrainOptions options = plain_options();
  options.optimizer.rule = Sgd{.lr = 0.05, .momentum = 0};
  options.epochs = 100;
  options.run_folder = folder / "run";
  options.max_time = std::chrono::minutes(10);
  options.clock = &clock;
  const FitResult result = LinearRun(small(1)).run(options, {&hourglass});
  EXPECT_EQ("max-time", result.end.stopped_by);
  EXPECT_FALSE(result.end.interrupted);
  const auto steps = read_checkpoint_state(folder / "run/checkpoints/last").global_step;
  EXPECT_GE(steps, 11);
  EXPECT_LE(steps, 13);
}

/// Counts batches evaluated before the first step.
class SanityWatch final : public Observer {
 public:
  void on_step(const StepEvent& /*event*/) override { trained = true; }
  void on_evaluation_step(std::int64_t batches) override {
    if (!trained) before = batches;
  }
  bool trained = false;
  std::int64_t before = 0;
};

TEST(FitOptions, TheSanityCheckEvaluatesBeforeTheFirstStepAndChangesNothing) {
  const testing::TempDir folder;
  TrainOptions options = plain_options();
  options.optimizer.rule = Sgd{.lr = 0.05, .momentum = 0};
  const FitResult plain = LinearRun(small(2)).run(options);
  options.sanity_val_steps = 2;
  options.log = Log::to_file(folder / "log");
  SanityWatch watch;
  const FitResult checked = LinearRun(small(2)).run(options, {&watch});
  EXPECT_EQ(2, watch.before);
  EXPECT_EQ(plain.epochs[0].val, checked.epochs[0].val);
  EXPECT_THAT(testing::read_file(folder / "log"),
              HasSubstr("Sanity check: 32 samples evaluated before training"));
}

TEST(FitOptions, TheSanityCheckFindsWhatWouldFailAfterAnEpoch) {
  LinearRun run(small(1));
  auto samples = make_samples(8, LinearRun::kFeatures, LinearRun::kClasses, 2);
  samples[1].label = LinearRun::kClasses;
  run.val = MemoryFeed(std::move(samples), 4, 1);
  TrainOptions options = plain_options();
  options.sanity_val_steps = 1;
  SanityWatch watch;
  EXPECT_ANY_THROW(run.run(options, {&watch}));
  EXPECT_FALSE(watch.trained);
}

TEST(LossObjective, SaysWhichOutputsAndFieldsItReads) {
  const LossObjective objective(
      {.inputs = {"image", "depth"},
       .heads = {{.output = 1, .loss = losses::Mse{}, .target = "depth"}, {.target = "label"}}});
  ASSERT_EQ(2U, objective.heads().size());
  EXPECT_EQ(1U, objective.heads()[0].output);
  EXPECT_EQ((std::vector<std::string>{"image", "depth", "label"}), objective.fields());
}

TEST(Fit, RefusesAnObjectiveThatReadsAnOutputTheModelDoesNotHave) {
  LinearRun run({});
  const GraphModel model("lenet",
                         build_model("lenet", {.num_classes = 4, .in_channels = 1, .image = 28}));
  const LossObjective objective({.heads = {{.output = 1}}});
  try {
    fit({.model = model, .objective = objective, .train = run.train, .devices = run.devices}, {});
    ADD_FAILURE() << "it trains";
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kInvalidArgument, error.code());
    EXPECT_THAT(error.what(), ::testing::HasSubstr("output 1 of lenet, which has 1"));
  }
}

TEST(LossObjective, NamesItsHeadsMeasures) {
  const LossObjective two(
      {.heads = {
           {.name = "mask", .loss = losses::Bce{}, .metrics = {Metric::kIou}},
           {.output = 1, .name = "depth", .loss = losses::L1{}, .metrics = {Metric::kRmse}}}});
  EXPECT_THAT(two.measures(), ElementsAre("loss", "loss.mask", "iou", "loss.depth", "rmse"));
  const LossObjective same(
      {.heads = {{.loss = losses::Bce{}, .metrics = {Metric::kIou}},
                 {.output = 1, .loss = losses::Dice{}, .metrics = {Metric::kIou}}}});
  EXPECT_THAT(same.measures(), ElementsAre("loss", "loss.0", "iou.0", "loss.1", "iou.1"));
}

}  // namespace
}  // namespace millrace::trainer
