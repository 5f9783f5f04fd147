// What a run leaves after a fault of its input, its evaluation or a hook, and after a stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "device/device.h"
#include "io/base/error.h"
#include "io/opener.h"
#include "tests/support/counting_opener.h"
#include "tests/support/fake_clock.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/fakes.h"
#include "trainer/checkpoint.h"
#include "trainer/evaluate.h"
#include "trainer/fit.h"
#include "trainer/schedules/cosine.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;
using testing::LinearRun;
using testing::LocalThreads;
using testing::make_samples;
using testing::MemoryFeed;

TrainOptions options_of_faults(const std::string& run_folder) {
  return {.epochs = 3,
          .precision = nn::Precision::kFloat32,
          .seed = 5,
          .optimizer = {.rule = Sgd{.lr = 0.05, .momentum = 0.9F}},
          .schedule = schedules::Cosine(),
          .schedule_epochs = 3.0,
          .ema_decay = 0.9,
          .run_folder = run_folder};
}

std::string tensors_of(const std::string& checkpoint) {
  std::string all;
  for (const char* file : {"model", "ema", "optimizer"})
    all += testing::read_file(checkpoint + "/" + file + ".safetensors");
  return all;
}

std::vector<double> joined(std::vector<double> first, const std::vector<double>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// After the damage is repaired, the run must continue like an undamaged one.
void expect_continues_as_if_whole(const LinearRun& broken, TrainOptions options,
                                  const testing::LinearRunOptions& setup = {.world = 2}) {
  options.resume = "auto";
  LinearRun mended(setup);
  mended.run(options);
  const std::string checkpoint = options.run_folder + "/checkpoints/last";
  options.run_folder += "-whole";
  options.resume.clear();
  LinearRun whole(setup);
  whole.run(options);
  EXPECT_EQ(whole.recorder.losses, joined(broken.recorder.losses, mended.recorder.losses));
  EXPECT_EQ(tensors_of(options.run_folder + "/checkpoints/last"), tensors_of(checkpoint));
}

struct InputFaultCase {
  int world;
  std::int64_t accumulate;
  int failing_replica;
};

class FitInputFault : public ::testing::TestWithParam<InputFaultCase> {};

TEST_P(FitInputFault, KeepsTheStepsBeforeIt) {
  const auto [world, accumulate, failing_replica] = GetParam();
  const testing::TempDir folder;
  TrainOptions options = options_of_faults(folder / "run");
  options.accumulate = accumulate;
  options.log = Log::to_file(folder / "log");
  LinearRun broken({.world = world, .batch_size = 8});
  broken.train.before_batch = [failing = failing_replica, calls = 0](int replica,
                                                                     std::int64_t) mutable {
    if (replica == failing && ++calls == 18)
      throw Error(ErrorCode::kTruncated, "the shard is cut", {.url = "a.tar"});
  };
  try {
    broken.run(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ("a.tar", error.where().url);
  }
  EXPECT_GT(read_checkpoint_state(folder / "run/checkpoints/last").step_in_epoch, 0);
  EXPECT_THAT(testing::read_file(folder / "log"),
              HasSubstr("run/checkpoints/last holds the state up to there"));
  expect_continues_as_if_whole(broken, options, {.world = world, .batch_size = 8});
}

INSTANTIATE_TEST_SUITE_P(Worlds, FitInputFault,
                         ::testing::Values(InputFaultCase{1, 1, 0}, InputFaultCase{2, 1, 0},
                                           InputFaultCase{2, 1, 1}, InputFaultCase{2, 3, 1},
                                           InputFaultCase{3, 2, 2}));

TEST(FitFaults, AWrongLabelKeepsTheStepsBeforeIt) {
  const testing::TempDir folder;
  TrainOptions options = options_of_faults(folder / "run");
  options.log_steps = 1;
  LinearRun broken({.world = 2});
  auto samples = make_samples(200, LinearRun::kFeatures, LinearRun::kClasses, 1);
  samples[100].label = 9;
  broken.train = MemoryFeed(std::move(samples), 16, 2);
  EXPECT_THROW(broken.run(options), Error);
  EXPECT_EQ(3, read_checkpoint_state(folder / "run/checkpoints/last").step_in_epoch);
  expect_continues_as_if_whole(broken, options);
}

TEST(FitFaults, AFaultInAnEvaluationKeepsTheEpochsSteps) {
  const testing::TempDir folder;
  const TrainOptions options = options_of_faults(folder / "run");
  LinearRun broken({.world = 2});
  broken.val.before_batch = [](int, std::int64_t step) {
    if (step == 2) throw Error(ErrorCode::kCorrupt, "a bad picture");
  };
  EXPECT_THROW(broken.run(options), Error);
  EXPECT_EQ(7U, broken.recorder.losses.size());
  expect_continues_as_if_whole(broken, options);
}

/// Fails at an evaluation's start or end, after a stop was requested.
class FailingHook final : public Observer {
 public:
  FailingHook(bool at_end, std::stop_source& stop) : at_end_(at_end), stop_(stop) {}
  void on_evaluation_start(std::int64_t) override {
    if (!at_end_) fail();
  }
  void on_evaluation_end(const EpochEvent&) override {
    if (at_end_) fail();
  }

 private:
  void fail() {
    stop_.request_stop();
    throw Error(ErrorCode::kIo, "the hook failed");
  }
  bool at_end_;
  std::stop_source& stop_;
};

TEST(FitFaults, AHookThatFailsAtAnEvaluationNeverLeavesTheMeanInTheWeightsPlace) {
  for (const bool at_end : {false, true}) {
    const testing::TempDir folder;
    TrainOptions options = options_of_faults(folder / "run");
    std::stop_source stop;
    options.stop = stop.get_token();
    LinearRun broken({.world = 2});
    FailingHook hook(at_end, stop);
    EXPECT_THROW(broken.run(options, {&hook}), Error);
    options.stop = {};
    expect_continues_as_if_whole(broken, options);
  }
}

/// Returns the batches of another feed, except one that never arrives.
class StallingFeed final : public Feed {
 public:
  StallingFeed(Feed& feed, std::function<void()> on_stall)
      : feed_(feed), on_stall_(std::move(on_stall)) {}
  std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) override {
    return std::make_unique<Epoch>(feed_.open(epoch, from), on_stall_);
  }
  std::int64_t steps_per_epoch() const override { return feed_.steps_per_epoch(); }

 private:
  class Epoch final : public EpochFeed {
   public:
    Epoch(std::unique_ptr<EpochFeed> feed, std::function<void()> on_stall)
        : feed_(std::move(feed)), on_stall_(std::move(on_stall)) {}
    bool next(int replica, pipeline::Batch& batch) override {
      if (replica == 1 && ++given_ == 4) wait_for_stop();
      return feed_->next(replica, batch);
    }
    void stop() override {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
    }

   private:
    void wait_for_stop() {
      on_stall_();
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_; });
      throw Error(ErrorCode::kCancelled, "the feed was stopped");
    }
    std::unique_ptr<EpochFeed> feed_;
    std::function<void()> on_stall_;
    int given_ = 0;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopped_ = false;
  };

  Feed& feed_;
  std::function<void()> on_stall_;
};

TEST(FitFaults, AStopReachesAReplicaThatWaitsForItsBatch) {
  const testing::TempDir folder;
  TrainOptions options = options_of_faults(folder / "run");
  std::stop_source stop;
  options.stop = stop.get_token();
  LinearRun broken({.world = 2});
  StallingFeed stalling(broken.train, [&] { stop.request_stop(); });
  broken.train_feed = &stalling;
  EXPECT_TRUE(broken.run(options).end.interrupted);
  EXPECT_EQ(3, read_checkpoint_state(folder / "run/checkpoints/last").step_in_epoch);
  options.stop = {};
  expect_continues_as_if_whole(broken, options);
}

TEST(FitFaults, TheTimeLimitReachesAReplicaThatWaitsForItsBatch) {
  for (const bool training : {true, false}) {
    const testing::TempDir folder;
    TrainOptions options = options_of_faults(folder / "run");
    testing::FakeClock clock;
    options.clock = &clock;
    options.max_time = std::chrono::minutes(10);
    LinearRun broken({.world = 2});
    StallingFeed stalling(training ? broken.train : broken.val,
                          [&] { clock.advance(std::chrono::hours(1)); });
    (training ? broken.train_feed : broken.val_feed) = &stalling;
    const FitResult result = broken.run(options);
    EXPECT_EQ("max-time", result.end.stopped_by);
    EXPECT_FALSE(result.end.interrupted);
    EXPECT_EQ(training ? 3 : 7,
              read_checkpoint_state(folder / "run/checkpoints/last").step_in_epoch);
    options.max_time = {};
    expect_continues_as_if_whole(broken, options);
  }
}

TEST(FitFaults, AStopInTheSanityCheckEndsTheRun) {
  const testing::TempDir folder;
  TrainOptions options = options_of_faults(folder / "run");
  std::stop_source stop;
  options.stop = stop.get_token();
  options.sanity_val_steps = 6;
  LinearRun broken({.world = 2});
  StallingFeed stalling(broken.val, [&] { stop.request_stop(); });
  broken.val_feed = &stalling;
  EXPECT_TRUE(broken.run(options).end.interrupted);
  EXPECT_TRUE(broken.recorder.losses.empty());
}

TEST(FitFaults, AnEpochOrAnEvaluationWithoutASampleIsAnError) {
  const testing::TempDir folder;
  for (const bool training : {true, false}) {
    LinearRun empty({.world = 2});
    MemoryFeed& feed = training ? empty.train : empty.val;
    feed = MemoryFeed({}, 16, 2);
    try {
      empty.run(options_of_faults(folder / "run"));
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr(training ? "epoch 1 had no samples" : "the evaluation had no samples"));
    }
  }
}

TEST(LoaderFeed, ReadsNothingAheadOfEpochsThatAreNotPlanned) {
  const testing::TempDir folder;
  std::vector<std::string> shards;
  for (int shard = 0; shard < 4; ++shard) {
    testing::TarBuilder tar;
    for (int i = 0; i < 8; ++i) {
      const std::string key = std::to_string(shard) + std::to_string(i);
      tar.file(key + ".cls", std::to_string(i % 4)).file(key + ".txt", "1 2 3 4");
    }
    shards.push_back(folder / (std::to_string(shard) + ".tar"));
    testing::write_file(shards.back(), tar.end().bytes());
  }
  const auto opener = std::make_shared<testing::CountingOpener>();
  const auto devices = device::DeviceSet::cpu(1);
  const auto feed_options = [&] {
    return pipeline::PipelineOptions{
        .shards = shards,
        .fields = {pipeline::FloatsField{.name = "x", .suffixes = "txt", .size = 4},
                   pipeline::LabelField{.classes = 4}},
        .batch = {.size = 8},
        .scan = false,
        .opener = opener};
  };
  LoaderFeed train(feed_options(), devices);
  LoaderFeed val(feed_options(), devices);
  const testing::LinearModel model(4, 4);
  const LossObjective objective({.inputs = {"x"}, .heads = {Head{}}});
  LocalThreads threads(1);
  fit({.model = model,
       .objective = objective,
       .train = train,
       .validation = &val,
       .devices = threads},
      {.epochs = 2, .precision = nn::Precision::kFloat32, .run_folder = folder / "run"});
  for (const auto& [url, times] : opener->opens()) EXPECT_EQ(2 + 2, times) << url;
  evaluate({.model = model, .objective = objective, .feed = val, .devices = threads},
           {.precision = nn::Precision::kFloat32, .weights = folder / "run/checkpoints/last"});
  for (const auto& [url, times] : opener->opens()) EXPECT_EQ(2 + 2 + 1, times) << url;
}

TEST(LoaderFeed, AnEpochThatIsCutReportsItsOwnFaults) {
  const testing::TempDir folder;
  testing::TarBuilder tar;
  for (int i = 0; i < 4000; ++i) tar.file(std::to_string(i) + ".cls", i == 3999 ? "x" : "1");
  testing::write_file(folder / "0.tar", tar.end().bytes());
  const auto devices = device::DeviceSet::cpu(1);
  LoaderFeed feed({.shards = {folder / "0.tar"},
                   .fields = {pipeline::LabelField{.classes = 4}},
                   .batch = {.size = 1},
                   .resources = {.threads = 1, .prefetch = 1, .autotune = {.on = false}},
                   .faults = {.on_fault = wds::OnFault::kSkip}},
                  devices);
  pipeline::Batch batch;
  {
    const auto whole = feed.open(0, nullptr);
    while (whole->next(0, batch)) continue;
    EXPECT_EQ(whole->report().skips.size(), 1U);
  }
  const auto cut = feed.open(1, nullptr);
  EXPECT_TRUE(cut->next(0, batch));
  EXPECT_EQ(cut->report().skips.size(), 0U) << "the damaged sample is the last one";
}

TEST(LoaderFeed, ReleasedOneHoldsNothingAndOpensAgain) {
  const testing::TempDir folder;
  testing::write_file(folder / "0.tar",
                      testing::TarBuilder().file("0.cls", "3").file("1.cls", "2").end().bytes());
  const auto devices = device::DeviceSet::cpu(1);
  LoaderFeed feed({.shards = {folder / "0.tar"},
                   .fields = {pipeline::LabelField{.classes = 4}},
                   .batch = {.size = 1}},
                  devices);
  for (int i = 0; i < 2; ++i) {
    pipeline::Batch batch;
    EXPECT_TRUE(feed.open(0, nullptr)->next(0, batch));
    EXPECT_NE(feed.pipeline(), nullptr);
    feed.release();
    EXPECT_EQ(feed.pipeline(), nullptr);
  }
}

}  // namespace
}  // namespace millrace::trainer
