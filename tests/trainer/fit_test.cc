#include "trainer/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "io/base/error.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/fakes.h"
#include "trainer/checkpoint.h"
#include "trainer/evaluate.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/lars.h"
#include "trainer/schedules/constant.h"
#include "trainer/schedules/cosine.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::expect_one_curve;
using ::testing::HasSubstr;
using testing::LinearRun;
using testing::make_samples;
using testing::MemoryFeed;
using testing::weights_in;

TrainOptions options_for(std::int64_t epochs) {
  return {.epochs = epochs,
          .precision = nn::Precision::kFloat32,
          .seed = 5,
          .optimizer = {.rule = Sgd{.lr = 0.05, .momentum = 0.9F}},
          .schedule = schedules::Cosine(),
          .schedule_epochs = 6.0};
}

TEST(Fit, LearnsAndEvaluatesEverySampleOnce) {
  LinearRun bench({.world = 2});
  const FitResult result = bench.run(options_for(4));
  ASSERT_EQ(4U, result.epochs.size());
  const EpochEvent& last = result.epochs.back();
  EXPECT_LT(*find_value(last.train, "loss"), 0.5 * *find_value(result.epochs[0].train, "loss"));
  EXPECT_GT(*find_value(last.val, "top1"), 0.9);
  EXPECT_EQ(200, last.train_samples);
  EXPECT_EQ(101, last.val_samples) << "uneven over 2 devices and batches of 16";
  EXPECT_EQ(4, result.end.epochs);
  EXPECT_EQ("val_top1", result.end.monitor);
}

TEST(Fit, CompilesOncePerShapeAndReplica) {
  LinearRun bench({.world = 2});
  const FitResult result = bench.run(options_for(2));
  ASSERT_EQ(2U, result.epochs[0].compilations.size());
  for (const CompileEvent& compiled : result.epochs[0].compilations) {
    EXPECT_EQ("16 x linear float32", compiled.shape);
    EXPECT_GT(compiled.seconds, 0.0);
    EXPECT_GT(compiled.activation_bytes, 0U);
  }
  EXPECT_TRUE(result.epochs[1].compilations.empty());
}

TEST(Fit, OverfitsOneBatchToAboutZero) {
  LinearRun bench({.world = 1, .batch_size = 8, .samples = 8});
  TrainOptions options = options_for(300);
  options.optimizer.rule = Sgd{.lr = 0.5, .momentum = 0.9F};
  options.schedule = schedules::Constant();
  bench.run(options);
  EXPECT_LT(bench.recorder.losses.back(), 0.01);
}

TEST(Fit, FollowsOneCurveAtEqualGlobalBatch) {
  LinearRun one({.world = 1, .batch_size = 48});
  one.run(options_for(3));
  for (const int world : {2, 3}) {
    LinearRun many({.world = world, .batch_size = 48 / world});
    many.run(options_for(3));
    SCOPED_TRACE(world);
    expect_one_curve(one.recorder.losses, many.recorder.losses);
  }
}

// 72 samples are 5 batches: in the third round the second device has none.
TEST(Fit, ADeviceWhoseInputEndsEarlierTakesPartWithNoSample) {
  for (const std::int64_t accumulate : {1, 2}) {
    const testing::TempDir folder;
    TrainOptions options = options_for(2);
    options.accumulate = accumulate;
    const auto weights_of = [&](bool is_unequal, const std::string& name) {
      LinearRun bench({.world = 2, .batch_size = 16, .samples = 72});
      bench.train.is_unequal = is_unequal;
      options.checkpoint.folder = folder / name;
      EXPECT_EQ(72, bench.run(options).epochs.back().train_samples);
      std::vector<float> weights = weights_in(folder / (name + "/last"), bench.model);
      weights.resize(bench.model.parameters().padded_size());
      return weights;
    };
    EXPECT_EQ(weights_of(false, "masked"), weights_of(true, "unequal")) << accumulate;
  }
}

/// Its last batch of an epoch has only the samples that are left, as with --uneven partial.
class PartialFeed final : public Feed {
 public:
  explicit PartialFeed(MemoryFeed& feed) : feed_(feed) { feed.is_unequal = true; }
  std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) override {
    return std::make_unique<Epoch>(feed_.open(epoch, from));
  }
  std::int64_t batch_size() const override { return feed_.batch_size(); }

 private:
  class Epoch final : public EpochFeed {
   public:
    explicit Epoch(std::unique_ptr<EpochFeed> feed) : feed_(std::move(feed)) {}
    bool next(int replica, pipeline::Batch& batch) override {
      if (!feed_->next(replica, batch)) return false;
      for (auto& field : batch.fields) {
        field.data = field.data.first(field.data.size() / static_cast<std::size_t>(batch.size) *
                                      static_cast<std::size_t>(batch.num_valid));
        field.spec.shape[0] = batch.num_valid;
      }
      batch.size = batch.num_valid;
      batch.valid.resize(static_cast<std::size_t>(batch.size));
      batch.keys.resize(batch.valid.size());
      return true;
    }
    void stop() override { feed_->stop(); }
    std::string busiest_stage() const override { return feed_->busiest_stage(); }

   private:
    std::unique_ptr<EpochFeed> feed_;
  };

  MemoryFeed& feed_;
};

// Steps of 32 + 8 samples on one device, and of 64 + 13 on two, the second without any of the 13.
TEST(Fit, MicroBatchesOfDifferentSizesWeighEachSampleAlike) {
  for (const auto& [world, samples] : std::vector<std::pair<int, std::size_t>>{{1, 40}, {2, 77}}) {
    const testing::TempDir folder;
    TrainOptions options = options_for(1);
    options.optimizer.rule = Sgd{.lr = 0.1, .momentum = 0};
    options.accumulate = 2;
    const auto weights_of = [&, w = world, n = samples](bool partial) {
      LinearRun bench({.world = w, .batch_size = 32, .samples = n});
      PartialFeed feed(bench.train);
      if (partial) bench.train_feed = &feed;
      options.checkpoint.folder = folder / (partial ? "partial" : "padded");
      bench.run(options);
      std::vector<float> weights = weights_in(options.checkpoint.folder + "/last", bench.model);
      weights.resize(bench.model.parameters().padded_size());
      return weights;
    };
    const std::vector<float> padded = weights_of(false);
    const std::vector<float> partial = weights_of(true);
    for (std::size_t i = 0; i < padded.size(); ++i)
      EXPECT_NEAR(padded[i], partial[i], 1e-6) << world << " devices, weight " << i;
  }
}

TEST(Fit, AGroupThatIsTheFirstOfNoParameterIsRefused) {
  const auto refusal = [](const std::vector<ParameterGroup>& groups) -> std::string {
    TrainOptions options = options_for(1);
    options.optimizer.rule = Sgd{.lr = 0.1, .groups = groups};
    try {
      LinearRun({.samples = 16}).run(options);
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(ErrorCode::kInvalidArgument, error.code());
      return error.what();
    }
  };
  using ::testing::AllOf;
  EXPECT_EQ("", refusal({{.parameters = "norms-biases"}, {.parameters = "fc."}}));
  EXPECT_THAT(refusal({{.parameters = "layer1.", .rate = 0}}),
              AllOf(HasSubstr("group(layer1.)"), HasSubstr("fc.bias, fc.weight")));
  EXPECT_THAT(refusal({{.parameters = "norm-biases"}}), HasSubstr("did you mean norms-biases?"));
  EXPECT_THAT(refusal({{.parameters = "fc."}, {.parameters = "*.bias"}}),
              AllOf(HasSubstr("group(*.bias)"), HasSubstr("groups before it")));
}

TEST(Fit, OtherStepsPerEpochThanTheInputsAreWarnedOf) {
  const auto log_of = [](std::int64_t steps, const ScheduleChoice& schedule) {
    const testing::TempDir folder;
    TrainOptions options = options_for(1);
    options.schedule = schedule;
    options.steps_per_epoch = steps;
    options.log = Log::to_file(folder / "screen");
    LinearRun({.samples = 100}).run(options);
    return testing::read_file(folder / "screen");
  };
  const schedules::Cosine by_step{.pace = {.unit = RateUnit::kStep}};
  const std::string warning = "an epoch has 7 steps, and ";
  EXPECT_THAT(log_of(4, by_step), HasSubstr(warning + "4 were given"));
  EXPECT_THAT(log_of(9, by_step), HasSubstr(warning + "9 were given"));
  EXPECT_THAT(log_of(7, by_step), ::testing::Not(HasSubstr(warning)));
  EXPECT_THAT(log_of(4, schedules::Cosine()), ::testing::Not(HasSubstr(warning))) << "by epoch";
}

TEST(Fit, RepeatsItselfBitForBit) {
  LinearRun first({.world = 3});
  LinearRun second({.world = 3});
  second.train.before_batch = [](int replica, std::int64_t step) {
    if ((replica + step) % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  first.run(options_for(2));
  second.run(options_for(2));
  EXPECT_EQ(first.recorder.losses, second.recorder.losses);
}

TEST(Fit, ResumedAtAnEpochEqualsUninterrupted) {
  const testing::TempDir folder;
  TrainOptions options = options_for(4);
  options.run_folder = folder / "whole";
  LinearRun whole({.world = 2});
  whole.run(options);

  options.run_folder = folder / "broken";
  options.epochs = 2;
  LinearRun before({.world = 2});
  before.run(options);
  options.epochs = 4;
  options.resume = "auto";
  LinearRun after({.world = 2});
  const FitResult result = after.run(options);
  EXPECT_EQ(2U, result.epochs.size());

  std::vector<double> losses = before.recorder.losses;
  losses.insert(losses.end(), after.recorder.losses.begin(), after.recorder.losses.end());
  EXPECT_EQ(whole.recorder.losses, losses);
  EXPECT_EQ(weights_in(folder / "whole/checkpoints/last", whole.model),
            weights_in(folder / "broken/checkpoints/last", whole.model));
  EXPECT_EQ(testing::read_file(folder / "whole/checkpoints/last/optimizer.safetensors"),
            testing::read_file(folder / "broken/checkpoints/last/optimizer.safetensors"));
}

TEST(Fit, ResumedInMidEpochEqualsUninterrupted) {
  const testing::TempDir folder;
  TrainOptions options = options_for(3);
  options.run_folder = folder / "whole";
  LinearRun whole({.world = 2});
  const FitResult expected = whole.run(options);

  options.run_folder = folder / "broken";
  std::stop_source stop;
  options.stop = stop.get_token();
  LinearRun before({.world = 2});
  before.train.before_batch = [&, calls = std::make_shared<std::atomic<int>>(0)](int,
                                                                                 std::int64_t) {
    if (++*calls == 23) stop.request_stop();
  };
  const FitResult stopped = before.run(options);
  EXPECT_TRUE(stopped.end.interrupted);
  ASSERT_LT(before.recorder.losses.size(), whole.recorder.losses.size());
  ASSERT_NE(0U, before.recorder.losses.size() % 7) << "not at an epoch's end";

  options.stop = {};
  options.resume = "auto";
  LinearRun after({.world = 2});
  const FitResult result = after.run(options);
  std::vector<double> losses = before.recorder.losses;
  losses.insert(losses.end(), after.recorder.losses.begin(), after.recorder.losses.end());
  EXPECT_EQ(whole.recorder.losses, losses);
  EXPECT_EQ(expected.epochs[1].train, result.epochs[0].train) << "meters continue too";
  EXPECT_EQ(expected.epochs.back().val, result.epochs.back().val);
  EXPECT_EQ(weights_in(folder / "whole/checkpoints/last", whole.model),
            weights_in(folder / "broken/checkpoints/last", whole.model));
}

TEST(Fit, AStopInEvaluationKeepsTheEpochsSteps) {
  const testing::TempDir folder;
  TrainOptions options = options_for(2);
  options.run_folder = folder / "run";
  std::stop_source stop;
  options.stop = stop.get_token();
  LinearRun before({.world = 2});
  before.val.before_batch = [&](int, std::int64_t step) {
    if (step == 2) stop.request_stop();
  };
  EXPECT_TRUE(before.run(options).end.interrupted);
  options.stop = {};
  options.resume = "auto";
  LinearRun after({.world = 2});
  const FitResult result = after.run(options);
  ASSERT_EQ(2U, result.epochs.size());
  EXPECT_EQ(101, result.epochs[0].val_samples);
  EXPECT_EQ(7U, after.recorder.losses.size()) << "the first epoch's steps are not taken again";
}

TEST(Fit, KeepsTheBestByReducedValues) {
  const testing::TempDir folder;
  TrainOptions options = options_for(5);
  options.run_folder = folder / "run";
  options.checkpoint.monitor = "val_loss";
  LinearRun bench({.world = 2});
  const FitResult result = bench.run(options);
  double best = std::numeric_limits<double>::infinity();
  std::int64_t best_epoch = 0;
  for (const EpochEvent& epoch : result.epochs) {
    if (*find_value(epoch.val, "loss") < best) {
      best = *find_value(epoch.val, "loss");
      best_epoch = epoch.epoch;
    }
  }
  EXPECT_EQ(best, *result.end.best);
  EXPECT_EQ(best_epoch, result.end.best_epoch);
  const TrainState state = read_checkpoint_state(folder / "run/checkpoints/best");
  EXPECT_EQ(best_epoch, state.epoch);
  EXPECT_EQ(best, *state.best);

  const EvalResult again =
      evaluate({.model = bench.model,
                .objective = bench.objective,
                .feed = bench.val,
                .devices = bench.devices},
               {.precision = nn::Precision::kFloat32, .weights = folder / "run/checkpoints/best"});
  EXPECT_EQ(101, again.samples);
  EXPECT_DOUBLE_EQ(best, *find_value(again.values, "loss"));
}

TEST(Evaluate, IsExactForEveryNumberOfDevices) {
  const testing::TempDir folder;
  LinearRun bench({.world = 1});
  TrainOptions options = options_for(1);
  options.run_folder = folder / "run";
  bench.run(options);
  std::vector<double> losses;
  for (const int world : {1, 2, 3, 8}) {
    LinearRun other({.world = world, .batch_size = 7});
    const EvalResult result = evaluate(
        {.model = other.model,
         .objective = other.objective,
         .feed = other.val,
         .devices = other.devices},
        {.precision = nn::Precision::kFloat32, .weights = folder / "run/checkpoints/last"});
    EXPECT_EQ(101, result.samples) << world;
    losses.push_back(*find_value(result.values, "loss"));
    EXPECT_NEAR(losses.front(), losses.back(), 1e-9) << world;
  }
}

TEST(Fit, AReplicasExceptionReachesTheCaller) {
  LinearRun bench({.world = 4});
  bench.train.before_batch = [](int replica, std::int64_t step) {
    if (replica == 2 && step == 1) throw Error(ErrorCode::kIo, "the disk is gone");
  };
  try {
    bench.run(options_for(1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ("the disk is gone", error.message());
  }
}

TEST(Fit, ALabelOutsideTheClassesNamesItsSample) {
  auto samples = make_samples(40, LinearRun::kFeatures, LinearRun::kClasses, 1);
  samples[13].label = 9;
  LinearRun bench({.world = 2});
  bench.train = MemoryFeed(std::move(samples), 8, 2);
  try {
    bench.run(options_for(1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ("sample13", error.where().key);
    EXPECT_THAT(error.message(), HasSubstr("label 9"));
  }
}

std::vector<testing::FakeSample> with_a_nan() {
  auto samples = make_samples(64, LinearRun::kFeatures, LinearRun::kClasses, 1);
  samples[40].features[3] = std::numeric_limits<float>::quiet_NaN();
  return samples;
}

TEST(Fit, ALossThatIsNotFiniteStopsAndIsNotSaved) {
  const testing::TempDir folder;
  LinearRun bench({.world = 2});
  bench.train = MemoryFeed(with_a_nan(), 8, 2);
  TrainOptions options = options_for(2);
  options.run_folder = folder / "run";
  try {
    bench.run(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("not finite at epoch 1, step 3"));
  }
  EXPECT_FALSE(fs::exists(folder / "run/checkpoints/last"));
  EXPECT_THAT(testing::read_file(folder / "run/metrics.jsonl"),
              AllOf(HasSubstr(R"("event":"step","epoch":1,"step":2)"),
                    HasSubstr(R"("event":"fault","fault":"NotFinite")")));
  EXPECT_THAT(testing::read_file(folder / "run/rank-0.log"),
              HasSubstr("Failed in epoch 1, after step 3: NotFinite"));
}

/// As torch.optim, whose step() is then not called.
TEST(Fit, ASkippedStepIsNoneOfTheRules) {
  auto samples = make_samples(40, LinearRun::kFeatures, LinearRun::kClasses, 1);
  TrainOptions options = options_for(1);
  options.optimizer.rule = Adam{.lr = 0.01};
  options.on_non_finite = OnNonFinite::kSkip;
  const auto losses = [&](const std::vector<testing::FakeSample>& of) {
    LinearRun bench({.world = 1});
    bench.train = MemoryFeed(of, 8, 1);
    bench.run(options);
    return bench.recorder.losses;
  };
  const std::vector<double> without =
      losses(std::vector<testing::FakeSample>(samples.begin() + 8, samples.end()));
  samples[3].features[3] = std::numeric_limits<float>::quiet_NaN();
  std::vector<double> with = losses(samples);
  with.erase(with.begin());
  EXPECT_EQ(without, with);
}

TEST(Fit, ALossThatIsNotFiniteIsSkippedByOption) {
  LinearRun bench({.world = 2});
  bench.train = MemoryFeed(with_a_nan(), 8, 2);
  TrainOptions options = options_for(1);
  options.on_non_finite = OnNonFinite::kSkip;
  const FitResult result = bench.run(options);
  EXPECT_EQ(48, result.epochs[0].train_samples);
  EXPECT_EQ(1, result.epochs[0].skipped_steps);
  EXPECT_EQ(16, result.epochs[0].skipped_step_samples);
  EXPECT_TRUE(std::isfinite(*find_value(result.epochs[0].val, "loss")));
}

/// A run of one step, after which every output is infinite or NaN.
LinearRun& of_one_step(LinearRun& bench, TrainOptions& options) {
  options.optimizer.rule = Sgd{.lr = 3e38, .momentum = 0.9F};
  bench.train = MemoryFeed(make_samples(32, LinearRun::kFeatures, LinearRun::kClasses, 3), 16, 2);
  return bench;
}

TEST(Fit, AnEvaluationWhoseOutputsAreNotFiniteEndsTheRunUnsaved) {
  const testing::TempDir folder;
  LinearRun bench({.world = 2});
  TrainOptions options = options_for(1);
  options.run_folder = folder / "run";
  try {
    of_one_step(bench, options).run(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(),
                HasSubstr("the evaluation of epoch 1: 101 of 101 samples have outputs that are "
                          "not finite"));
  }
  EXPECT_FALSE(fs::exists(folder / "run/checkpoints/last"));
}

TEST(Fit, AnEvaluationWhoseOutputsAreNotFiniteIsNeverTheBest) {
  const testing::TempDir folder;
  LinearRun bench({.world = 2});
  TrainOptions options = options_for(1);
  options.log = Log::to_file(folder / "log");
  options.on_non_finite = OnNonFinite::kSkip;
  const FitResult result = of_one_step(bench, options).run(options);
  ASSERT_EQ(1U, result.epochs.size());
  EXPECT_EQ(101, result.epochs[0].val_non_finite);
  for (const auto& [name, value] : result.epochs[0].val) EXPECT_TRUE(std::isnan(value)) << name;
  EXPECT_FALSE(result.epochs[0].is_best);
  EXPECT_FALSE(result.end.best.has_value());
  EXPECT_THAT(testing::read_file(folder / "log"),
              HasSubstr("no epoch was the best: val_top1 was a number in none"));
}

/// Cross-entropy; one gradient of one batch is infinite, its loss is not.
class OneBadGradient final : public Objective {
 public:
  const std::vector<std::string>& measures() const override { return inner_.measures(); }
  const std::vector<std::string>& inputs() const override { return inner_.inputs(); }
  std::size_t num_sums() const override { return inner_.num_sums(); }
  void score(const ScoreRequest& request, std::span<double> sums) const override {
    inner_.score(request, sums);
    if (!request.gradients || request.batch.index != 5) return;
    request.plan.output_gradient(0).data[1] = std::numeric_limits<float>::infinity();
  }

 private:
  LossObjective inner_{{.inputs = {"x"}, .heads = {Head{}}}};
};

FitResult fit_with_a_bad_gradient(LinearRun& bench, const TrainOptions& options) {
  const OneBadGradient objective;
  return fit({.model = bench.model,
              .objective = objective,
              .train = bench.train,
              .validation = &bench.val,
              .devices = bench.devices},
             options, {&bench.recorder});
}

// Batch 5 is the second device's in the third step.
TEST(Fit, AGradientThatIsNotFiniteStopsAStepLaterAndIsNotSaved) {
  const testing::TempDir folder;
  LinearRun bench({.world = 2});
  TrainOptions options = options_for(2);
  options.run_folder = folder / "run";
  try {
    fit_with_a_bad_gradient(bench, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("a gradient is not finite at epoch 1, step 3"));
  }
  EXPECT_EQ(3U, bench.recorder.losses.size()) << "the fourth step is not told";
  EXPECT_FALSE(fs::exists(folder / "run/checkpoints/last"));
}

TEST(Fit, AGradientThatIsNotFiniteIsSkippedByOption) {
  for (const double clip : {0.0, 1.0}) {
    const testing::TempDir folder;
    LinearRun bench({.world = 2});
    TrainOptions options = options_for(1);
    options.on_non_finite = OnNonFinite::kSkip;
    options.clip.norm = clip;
    options.log = Log::to_file(folder / "log");
    const FitResult result = fit_with_a_bad_gradient(bench, options);
    EXPECT_EQ(168, result.epochs[0].train_samples) << "200 but for the step's 32";
    EXPECT_EQ(7U, bench.recorder.losses.size());
    EXPECT_TRUE(std::isfinite(*find_value(result.epochs[0].val, "loss")));
    EXPECT_THAT(testing::read_file(folder / "log"), HasSubstr("1 of 7 steps skipped"));
  }
}

// Before a checkpoint, the last step's outcome is asked at once.
TEST(Fit, AGradientThatIsNotFiniteIsKnownBeforeACheckpoint) {
  const testing::TempDir folder;
  LinearRun bench({.world = 2});
  TrainOptions options = options_for(1);
  options.run_folder = folder / "run";
  options.checkpoint.every_steps = 3;
  EXPECT_THROW(fit_with_a_bad_gradient(bench, options), Error);
  EXPECT_FALSE(fs::exists(folder / "run/checkpoints/last"));
}

TEST(Fit, ACheckpointOfAnotherModelIsRefusedBeforeAnythingIsWritten) {
  const testing::TempDir folder;
  LinearRun bench({.world = 1});
  TrainState state{.model = "resnet18", .optimizer = "sgd"};
  save_checkpoint(folder.path(), "last", state, {});
  TrainOptions options = options_for(1);
  options.run_folder = folder / "run";
  options.resume = folder / "last";
  EXPECT_THROW(bench.run(options), Error);
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(Fit, RefusesOptionsThatCannotWork) {
  LinearRun bench({.world = 1});
  EXPECT_THROW(bench.run(options_for(0)), Error);
  TrainOptions options = options_for(1);
  options.checkpoint.monitor = "val_top7";
  EXPECT_THROW(bench.run(options), Error);
}

TEST(Fit, WritesItsRunFolder) {
  const testing::TempDir folder;
  LinearRun bench({.world = 2});
  TrainOptions options = options_for(1);
  options.run_folder = folder / "run";
  options.config_json = R"({"model":"linear"})";
  options.log_steps = 3;
  options.log = Log::to_file(folder / "screen");
  bench.run(options);
  EXPECT_THAT(testing::read_file(folder / "run/report.txt"), HasSubstr("Metric: StepTime"));
  EXPECT_THAT(testing::read_file(folder / "run/metrics.csv"), HasSubstr("epoch,1,7,val_top1,"));
  EXPECT_EQ(R"({"model":"linear"})", testing::read_file(folder / "run/config.json"));
  EXPECT_THAT(testing::read_file(folder / "run/metrics.jsonl"), HasSubstr(R"("event":"end")"));
  EXPECT_THAT(testing::read_file(folder / "run/rank-1.log"),
              HasSubstr("rank 1 | Training Device=cpu:1/1 Epoch=1 Step=3 Loss="));
  const std::string screen = testing::read_file(folder / "screen");
  EXPECT_THAT(screen, HasSubstr("Training Device=cpu:0/0 Epoch=1 Step=6 Loss="));
  EXPECT_THAT(screen, HasSubstr("Epoch 1 train end"));
  EXPECT_THAT(screen, ::testing::Not(HasSubstr("cpu:1/1"))) << "the master alone";
}

TEST(Fit, AccumulatedBatchesStepAsOneLargeBatch) {
  LinearRun large({.world = 1, .batch_size = 48});
  large.run(options_for(3));
  for (const int world : {1, 2}) {
    LinearRun small({.world = world, .batch_size = 48 / world / 4});
    TrainOptions options = options_for(3);
    options.accumulate = 4;
    small.run(options);
    SCOPED_TRACE(world);
    expect_one_curve(large.recorder.losses, small.recorder.losses);
  }
}

TEST(Fit, ClippingBoundsTheStep) {
  const testing::TempDir folder;
  for (const int world : {1, 3}) {
    LinearRun bench({.world = world, .batch_size = 24 / world, .samples = 24});
    TrainOptions options = options_for(1);
    options.optimizer = {.rule = Sgd{.lr = 1.0, .momentum = 0}};
    options.schedule = schedules::Constant();
    options.clip.norm = 0.01;
    options.run_folder = folder / std::to_string(world);
    bench.run(options);
    std::vector<float> start(bench.model.parameters().padded_size());
    std::vector<float> buffers(16);
    bench.model.initialise(options.seed, start, buffers);
    const std::vector<float> after =
        weights_in(options.run_folder + "/checkpoints/last", bench.model);
    double squares = 0.0;
    for (std::size_t i = 0; i < start.size(); ++i) {
      squares += std::pow(static_cast<double>(after[i] - start[i]), 2);
    }
    EXPECT_NEAR(0.01, std::sqrt(squares), 1e-5) << "the gradient's norm was larger";
  }
}

TEST(Fit, LarsFollowsOneCurveOverItsSlices) {
  TrainOptions options = options_for(2);
  options.optimizer = {.rule = Lars{.lr = 1.0, .momentum = 0.9F, .trust = 0.02F}};
  options.schedule = schedules::Constant();
  options.reducer.bucket_floats = 32;
  LinearRun one({.world = 1, .batch_size = 48});
  LinearRun three({.world = 3, .batch_size = 16});
  one.run(options);
  three.run(options);
  EXPECT_LT(one.recorder.losses.back(), one.recorder.losses.front());
  EXPECT_NEAR(one.recorder.losses.back(), three.recorder.losses.back(), 1e-5);
}

TEST(Fit, EvaluatesWithTheMeanOfTheWeightsAndContinuesWithIt) {
  const testing::TempDir folder;
  TrainOptions options = options_for(3);
  options.ema_decay = 0.9;
  options.run_folder = folder / "whole";
  LinearRun whole({.world = 2});
  const FitResult expected = whole.run(options);
  LinearRun plain({.world = 2});
  const FitResult without = plain.run(options_for(3));
  EXPECT_EQ(whole.recorder.losses, plain.recorder.losses) << "training is what it was";
  EXPECT_NE(expected.epochs[0].val, without.epochs[0].val);

  options.run_folder = folder / "broken";
  options.epochs = 1;
  LinearRun({.world = 2}).run(options);
  options.epochs = 3;
  options.resume = "auto";
  EXPECT_EQ(expected.epochs.back().val, LinearRun({.world = 2}).run(options).epochs.back().val);

  const EvalResult again = evaluate(
      {.model = whole.model,
       .objective = whole.objective,
       .feed = whole.val,
       .devices = whole.devices},
      {.precision = nn::Precision::kFloat32, .weights = folder / "whole/checkpoints/last"});
  EXPECT_EQ(expected.epochs.back().val, again.values);
}

TEST(Fit, KeepsTheTopKEpochs) {
  const testing::TempDir folder;
  TrainOptions options = options_for(5);
  options.run_folder = folder / "run";
  options.checkpoint.monitor = "train_loss";
  options.checkpoint.top_k = 2;
  LinearRun({.world = 1}).run(options);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "run/checkpoints")) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("best", "last", "epoch-0004", "epoch-0005"));
}

TEST(Fit, WritesTheRowsOfAnEpochBeforeItsCheckpoints) {
  const testing::TempDir folder;
  TrainOptions options = options_for(2);
  options.run_folder = folder / "run";
  options.checkpoint.monitor = "train_loss";
  options.checkpoint.top_k = 1;
  struct Reader final : Observer {
    explicit Reader(std::string run_folder) : run(std::move(run_folder)) {}
    void on_epoch_start(std::int64_t number) override { epoch = number; }
    void on_checkpoint_start(const std::string& path) override {
      const std::string row = R"({"event":"epoch","epoch":)" + std::to_string(epoch);
      EXPECT_THAT(testing::read_file(run + "/metrics.jsonl"), HasSubstr(row)) << path;
      ++checkpoints;
    }
    std::string run;
    std::int64_t epoch = 0;
    int checkpoints = 0;
  } reader(folder / "run");
  LinearRun({.world = 2}).run(options, {&reader});
  EXPECT_EQ(6, reader.checkpoints) << "in each epoch its own, best and last";
}

TEST(Fit, SavesEverySoManySteps) {
  const testing::TempDir folder;
  TrainOptions options = options_for(1);
  options.run_folder = folder / "run";
  options.checkpoint.every_steps = 3;
  std::vector<std::int64_t> steps;
  struct Reader final : Observer {
    explicit Reader(std::vector<std::int64_t>& into) : steps(into) {}
    void on_checkpoint(const std::string& path) override {
      steps.push_back(read_checkpoint_state(path).step_in_epoch);
    }
    std::vector<std::int64_t>& steps;
  } reader(steps);
  LinearRun bench({.world = 2});
  fit({.model = bench.model,
       .objective = bench.objective,
       .train = bench.train,
       .devices = bench.devices},
      options, {&reader});
  EXPECT_THAT(steps, ::testing::ElementsAre(3, 6, 0, 0)) << "7 steps; best and last at the end";
}

TEST(Fit, EndsAtItsTimeLimitWithACheckpoint) {
  const testing::TempDir folder;
  TrainOptions options = options_for(100'000);
  options.run_folder = folder / "run";
  options.max_time = std::chrono::seconds(1);
  options.checkpoint.save_best = false;
  const FitResult result = LinearRun({.world = 2}).run(options);
  EXPECT_FALSE(result.end.interrupted);
  EXPECT_EQ("max-time", result.end.stopped_by);
  EXPECT_GT(read_checkpoint_state(folder / "run/checkpoints/last").global_step, 0);
}

TEST(Fit, ScalesTheRateByTheDevicesAndSaysSo) {
  const testing::TempDir folder;
  TrainOptions options = options_for(1);
  options.scale_lr = true;
  options.optimizer.rule = Sgd{.lr = 0.01, .momentum = 0.9F};
  options.schedule = schedules::Constant();
  options.log = Log::to_file(folder / "screen");
  struct Rates final : Observer {
    void on_step(const StepEvent& event) override { lr = event.lr; }
    double lr = 0;
  } rates;
  LinearRun bench({.world = 3});
  fit({.model = bench.model,
       .objective = bench.objective,
       .train = bench.train,
       .devices = bench.devices},
      options, {&rates});
  EXPECT_FLOAT_EQ(0.03F, static_cast<float>(rates.lr));
  EXPECT_THAT(testing::read_file(folder / "screen"),
              HasSubstr("Learning rate 0.01 x 3 devices = 0.03"));
}

TEST(Fit, StartsFromGivenWeights) {
  const testing::TempDir folder;
  TrainOptions options = options_for(4);
  options.run_folder = folder / "first";
  const FitResult first = LinearRun({.world = 1}).run(options);
  options = options_for(1);
  options.init = folder / "first/checkpoints/last/model.safetensors";
  LinearRun second({.world = 1});
  second.run(options);
  EXPECT_LT(second.recorder.losses.front(), *find_value(first.epochs[0].train, "loss"));
  options.init = folder / "first/checkpoints/last/optimizer.safetensors";
  EXPECT_THROW(LinearRun({.world = 1}).run(options), Error);
}

/// Cross-entropy, and a record of every sample's label.
class RecordingObjective final : public Objective {
 public:
  const std::vector<std::string>& measures() const override { return measures_; }
  const std::vector<std::string>& inputs() const override { return inner_.inputs(); }
  std::size_t num_sums() const override { return inner_.num_sums(); }
  void score(const ScoreRequest& request, std::span<double> sums) const override {
    inner_.score(request, sums);
    if (request.records == nullptr) return;
    const auto labels = request.batch.field("label").as<std::int64_t>();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (request.batch.valid[i] != 0) request.records->push_back(static_cast<float>(labels[i]));
    }
  }
  NamedValues finish(const Tally& tally) const override {
    NamedValues values{{"loss", tally.sums[0] / tally.samples}};
    if (tally.records.empty()) return values;
    double sum = 0.0;
    for (const float label : tally.records) sum += static_cast<double>(label);
    values.emplace_back("records", static_cast<double>(tally.records.size()));
    values.emplace_back("label_sum", sum);
    return values;
  }

 private:
  LossObjective inner_{{.inputs = {"x"}, .heads = {Head{}}}};
  std::vector<std::string> measures_{"loss", "records", "label_sum"};
};

TEST(Fit, GathersEverySamplesRecordsInEvaluationOnly) {
  for (const int world : {1, 3}) {
    LinearRun bench({.world = world});
    const RecordingObjective objective;
    TrainOptions options = options_for(1);
    options.checkpoint.monitor = "val_loss";
    const FitResult result = fit({.model = bench.model,
                                  .objective = objective,
                                  .train = bench.train,
                                  .validation = &bench.val,
                                  .devices = bench.devices},
                                 options);
    const EpochEvent& epoch = result.epochs[0];
    EXPECT_FALSE(find_value(epoch.train, "records"));
    EXPECT_EQ(101.0, *find_value(epoch.val, "records"));
    EXPECT_EQ(25.0 * (0 + 1 + 2 + 3), *find_value(epoch.val, "label_sum"));
  }
}

}  // namespace
}  // namespace millrace::trainer
