// What a run resumes from: which checkpoints, of which data, in which folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/fakes.h"
#include "trainer/checkpoint.h"
#include "trainer/fit.h"
#include "trainer/rules/adam.h"
#include "trainer/run_lock.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::LocalThreads;
using testing::make_samples;
using testing::MemoryFeed;

/// A feed with an identity.
class NamedFeed final : public Feed {
 public:
  NamedFeed(std::int64_t batch_size, int world)
      : feed(make_samples(64, 6, 2, 1), batch_size, world) {
    data.options = {{"shuffle", "100"}, {"resampled", "false"}};
    data.shards = {{.name = "a.tar", .bytes = 10'240, .checksum = "0123456789abcdef"},
                   {.name = "b.tar", .bytes = 20'480, .checksum = "123456789abcdef0"}};
  }
  std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) override {
    return feed.open(epoch, from);
  }
  std::optional<pipeline::DataIdentity> identity() const override { return data; }
  std::int64_t batch_size() const override { return feed.batch_size(); }
  std::int64_t steps_per_epoch() const override { return feed.steps_per_epoch(); }

  MemoryFeed feed;
  pipeline::DataIdentity data;
};

struct NamedRun {
  explicit NamedRun(int world = 1, std::int64_t batch_size = 8)
      : feed(batch_size, world), val(batch_size, world), devices(world) {}
  FitResult run(const TrainOptions& options, const std::vector<Observer*>& observers = {}) {
    return fit({.model = model,
                .objective = objective,
                .train = feed,
                .validation = has_val ? &val : nullptr,
                .devices = devices},
               options, observers);
  }
  /// The message with which it is refused; empty if it is not.
  std::string refusal(const TrainOptions& options) {
    try {
      run(options);
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(ErrorCode::kInvalidArgument, error.code());
      return error.what();
    }
  }

  testing::LinearModel model{6, 2};
  LossObjective objective{{.inputs = {"x"}, .heads = {Head{}}}};
  NamedFeed feed;
  NamedFeed val;
  bool has_val = false;
  LocalThreads devices;
};

struct ValidatedRun : NamedRun {
  ValidatedRun() { has_val = true; }
};

TrainOptions options_of_resume(const testing::TempDir& folder, std::int64_t epochs) {
  return {.epochs = epochs,
          .precision = nn::Precision::kFloat32,
          .optimizer = {.rule = Sgd{.lr = 0.01, .momentum = 0}},
          .run_folder = folder / "run",
          .log = Log::to_file(folder / "log")};
}

/// Runs one epoch; returns the options of the second one.
TrainOptions after_an_epoch(const testing::TempDir& folder) {
  TrainOptions options = options_of_resume(folder, 1);
  NamedRun().run(options);
  options.epochs = 2;
  options.resume = "auto";
  return options;
}

/// Runs until a stop in the first epoch.
void stop_in_epoch(const TrainOptions& options) {
  NamedRun run;
  std::stop_source stop;
  run.feed.feed.before_batch = [&](int, std::int64_t step) {
    if (step == 3) stop.request_stop();
  };
  TrainOptions stopped = options;
  stopped.stop = stop.get_token();
  ASSERT_TRUE(run.run(stopped).end.interrupted);
}

TEST(Resume, ShardsThatHoldSomethingElseAreRefusedWithBothValues) {
  const testing::TempDir folder;
  TrainOptions options = after_an_epoch(folder);
  NamedRun swapped;
  std::swap(swapped.feed.data.shards[0].checksum, swapped.feed.data.shards[1].checksum);
  EXPECT_THAT(swapped.refusal(options),
              AllOf(HasSubstr("shard a.tar: 10240 bytes, checksum 0123456789abcdef saved, 10240 "
                              "bytes, checksum 123456789abcdef0 given"),
                    HasSubstr("--allow-changed-data")));
  options.accept_changed_data = true;
  EXPECT_EQ("", swapped.refusal(options));
}

/// Runs one epoch with a validation set; returns the options of the second one.
TrainOptions after_a_validated_epoch(const testing::TempDir& folder) {
  TrainOptions options = options_of_resume(folder, 1);
  options.checkpoint.top_k = 1;
  ValidatedRun().run(options);
  options.epochs = 2;
  options.resume = "auto";
  return options;
}

TEST(Resume, ABestEpochByAnotherMeasureIsNotReplaced) {
  const testing::TempDir folder;
  TrainOptions options = after_a_validated_epoch(folder);
  const std::string best = folder / "run/checkpoints/best/state.json";
  const std::string before = testing::read_file(best);
  EXPECT_THAT(NamedRun().refusal(options),
              AllOf(HasSubstr("by val_top1, and this run's would be by train_loss"),
                    HasSubstr("--monitor val_top1 with --val")));
  options.checkpoint.monitor = "val_loss";
  EXPECT_THAT(ValidatedRun().refusal(options), HasSubstr("by val_loss"));
  options.accept_changed_data = true;
  EXPECT_THAT(ValidatedRun().refusal(options), HasSubstr("by val_loss"));
  EXPECT_EQ(before, testing::read_file(best));
  options.resume = folder / "run";
  options.run_folder = folder / "other";
  EXPECT_EQ(2, ValidatedRun().run(options).end.best_epoch) << "begun anew in a folder of its own";
  EXPECT_EQ(before, testing::read_file(best));
  EXPECT_THAT(testing::read_file(folder / "log"), HasSubstr("the best epoch begins anew"));
}

TEST(Resume, ABestEpochOfAnotherValidationSetIsReplacedOnlyIfAllowed) {
  const testing::TempDir folder;
  TrainOptions options = after_a_validated_epoch(folder);
  ValidatedRun other;
  other.val.data.shards.pop_back();
  EXPECT_THAT(other.refusal(options), AllOf(HasSubstr("the validation set has changed"),
                                            HasSubstr("2 shards saved, 1 given: b.tar"),
                                            HasSubstr("--allow-changed-data")));
  ValidatedRun refilled;
  refilled.val.data.shards[1].bytes = 4096;
  EXPECT_THAT(refilled.refusal(options), HasSubstr("shard b.tar: 20480 bytes"));
  options.accept_changed_data = true;
  EXPECT_EQ(2, other.run(options).end.best_epoch);
}

// Which samples of the set are measured, and how: the shards alone do not say it.
TEST(Resume, ABestEpochThatWasMeasuredOtherwiseIsReplacedOnlyIfAllowed) {
  const testing::TempDir folder;
  TrainOptions options = after_a_validated_epoch(folder);
  ValidatedRun fewer;
  fewer.val.data.options.emplace_back("where", "json.width > 100");
  EXPECT_THAT(fewer.refusal(options), AllOf(HasSubstr("where: none saved, json.width > 100 given"),
                                            HasSubstr("--allow-changed-data")));
  options.accept_changed_data = true;
  EXPECT_EQ(2, fewer.run(options).end.best_epoch);
}

TEST(Resume, ABestEpochByAnotherViewOfThePicturesIsReplacedOnlyIfAllowed) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 1);
  const auto resized = [](const std::string& side) {
    return Setting{
        .name = "--eval-resize", .value = side, .scope = SettingScope::kStart, .measures = true};
  };
  options.settings = {resized("32")};
  ValidatedRun().run(options);
  options.epochs = 2;
  options.resume = "auto";
  EXPECT_EQ("", ValidatedRun().refusal(options));
  options.epochs = 3;
  options.settings = {resized("60")};
  EXPECT_THAT(ValidatedRun().refusal(options), HasSubstr("--eval-resize: 32 saved, 60 given"));
  options.accept_changed_data = true;
  EXPECT_EQ(3, ValidatedRun().run(options).end.best_epoch);
}

/// Batches that do not say where they are.
class NamelessFeed final : public Feed {
 public:
  explicit NamelessFeed(Feed& feed) : feed_(feed) {}
  std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) override {
    return std::make_unique<Epoch>(feed_.open(epoch, from));
  }
  std::int64_t batch_size() const override { return feed_.batch_size(); }
  std::int64_t steps_per_epoch() const override { return feed_.steps_per_epoch(); }

 private:
  class Epoch final : public EpochFeed {
   public:
    explicit Epoch(std::unique_ptr<EpochFeed> feed) : feed_(std::move(feed)) {}
    bool next(int replica, pipeline::Batch& batch) override {
      const bool is_there = feed_->next(replica, batch);
      batch.position = nullptr;
      return is_there;
    }
    void stop() override { feed_->stop(); }

   private:
    std::unique_ptr<EpochFeed> feed_;
  };

  Feed& feed_;
};

// It was resumed as if the position were the epoch's beginning: the first samples came twice, and
// the last ones of the epoch were counted as its own.
TEST(Resume, AnEpochOfAFeedWithoutPositionsBeginsAgain) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 2);
  NamedRun run;
  NamelessFeed feed(run.feed);
  std::stop_source stop;
  run.feed.feed.before_batch = [&](int, std::int64_t step) {
    if (step == 3) stop.request_stop();
  };
  const auto train = [&](const std::vector<Observer*>& observers) {
    return fit(
        {.model = run.model, .objective = run.objective, .train = feed, .devices = run.devices},
        options, observers);
  };
  options.stop = stop.get_token();
  ASSERT_TRUE(train({}).end.interrupted);
  run.feed.feed.before_batch = nullptr;
  options.stop = {};
  options.resume = "auto";
  testing::Recorder recorder;
  train({&recorder});
  ASSERT_EQ(2U, recorder.epochs.size());
  for (const EpochEvent& epoch : recorder.epochs) EXPECT_EQ(64, epoch.train_samples);
  EXPECT_THAT(testing::read_file(folder / "log"), HasSubstr("epoch 1 begins again, after 3"));
}

TEST(Resume, ItsBestCheckpointComesAlongToAnotherFolder) {
  const testing::TempDir folder;
  TrainOptions options = after_a_validated_epoch(folder);
  options.epochs = 1;
  options.resume = folder / "run/checkpoints/last";
  options.run_folder = folder / "other";
  EXPECT_EQ(1, ValidatedRun().run(options).end.best_epoch);
  EXPECT_EQ(testing::read_file(folder / "run/checkpoints/best/model.safetensors"),
            testing::read_file(folder / "other/checkpoints/best/model.safetensors"));
  fs::remove_all(folder / "run/checkpoints/best");
  options.epochs = 2;
  options.run_folder = folder / "third";
  EXPECT_EQ(2, ValidatedRun().run(options).end.best_epoch) << "what is nowhere is not claimed";
  EXPECT_TRUE(read_checkpoint_state(folder / "third/checkpoints/last").top.empty() ||
              fs::exists(folder / "third/checkpoints/epoch-0002"));
}

TEST(Resume, ARateThatFollowsTheDevicesIsListed) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 1);
  options.scale_lr = true;
  stop_in_epoch(options);
  options.resume = "auto";
  NamedRun(2, 4).run(options);
  EXPECT_THAT(testing::read_file(folder / "log"),
              HasSubstr("learning rate: x 1 devices saved, x 2 given (scale_lr)"));
}

TEST(Resume, AnotherCheckpointThanTheOneOfTheNameIsSaid) {
  const testing::TempDir folder;
  NamedRun().run(options_of_resume(folder, 1));
  const Log log = Log::to_file(folder / "said");
  find_checkpoint(folder / "run", "best", io::UrlOpener(), log);
  EXPECT_EQ("", testing::read_file(folder / "said"));
  fs::remove_all(folder / "run/checkpoints/best");
  EXPECT_EQ(folder / "run/checkpoints/last",
            find_checkpoint(folder / "run", "best", io::UrlOpener(), log));
  EXPECT_THAT(testing::read_file(folder / "said"),
              AllOf(HasSubstr("there is no checkpoint best in "), HasSubstr("using its last")));
}

TEST(Resume, AnotherOrderOfTheValidationSetIsTheSameSet) {
  const testing::TempDir folder;
  const TrainOptions options = after_a_validated_epoch(folder);
  ValidatedRun other;
  other.val.data.options[0].second = "200";
  EXPECT_EQ("", other.refusal(options));
}

TEST(Resume, AValidationSetThatDecidesNothingIsWarnedOf) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 1);
  options.checkpoint.monitor = "train_loss";
  ValidatedRun().run(options);
  options.epochs = 2;
  options.resume = "auto";
  EXPECT_EQ("", NamedRun().refusal(options));
  EXPECT_THAT(testing::read_file(folder / "log"),
              HasSubstr("the validation set has changed since the checkpoint: 2 shards saved, 0 "
                        "given"));
}

/// With a sample in the second step that is not finite, and a rule that counts its steps.
TrainOptions options_of_skips(const testing::TempDir& folder, const std::string& run) {
  TrainOptions options = options_of_resume(folder, 2);
  options.optimizer.rule = Adam{.lr = 0.01};
  options.on_non_finite = OnNonFinite::kSkip;
  options.run_folder = folder / run;
  return options;
}

struct SkippingRun : NamedRun {
  SkippingRun() {
    auto samples = make_samples(64, 6, 2, 1);
    samples[10].features[3] = std::numeric_limits<float>::quiet_NaN();
    feed.feed = MemoryFeed(samples, 8, 1);
  }
};

TEST(Resume, TheRulesOwnStepsGoOnBehindOneThatWasSkipped) {
  const testing::TempDir folder;
  TrainOptions options = options_of_skips(folder, "whole");
  SkippingRun().run(options);
  const std::string whole = folder / "whole/checkpoints/last";
  EXPECT_EQ(2, read_checkpoint_state(whole).skipped_updates);
  options.run_folder = folder / "halved";
  std::stop_source stop;
  options.stop = stop.get_token();
  SkippingRun halved;
  halved.feed.feed.before_batch = [&](int, std::int64_t step) {
    if (step == 4) stop.request_stop();
  };
  halved.run(options);
  const std::string last = folder / "halved/checkpoints/last";
  EXPECT_EQ(1, read_checkpoint_state(last).skipped_updates);
  options.stop = {};
  options.resume = "auto";
  SkippingRun().run(options);
  EXPECT_EQ(2, read_checkpoint_state(last).skipped_updates);
  EXPECT_EQ(testing::read_file(whole + "/model.safetensors"),
            testing::read_file(last + "/model.safetensors"));
}

// What fit() kept of its options before rules and schedules were components.
constexpr const char* kOldSettings =
    R"([["epochs","1",1,1,""],["precision","fp32",0,1,""],["seed","0",0,1,""],)"
    R"(["optimizer.rule","sgd",0,1,""],["optimizer.momentum","0",1,1,""],)"
    R"(["optimizer.dampening","0",1,1,""],["optimizer.nesterov","false",1,1,""],)"
    R"(["optimizer.weight_decay","0",1,1,""],["optimizer.beta1","0.9",1,1,""],)"
    R"(["optimizer.beta2","0.999",1,1,""],["optimizer.epsilon","1e-08",1,1,""],)"
    R"(["optimizer.trust","0.001",1,1,""],)"
    R"(["optimizer.no_decay_on_biases_and_norms","false",1,1,""],)"
    R"(["optimizer.round_to_bf16","false",0,1,""],["schedule.kind","constant",1,1,""],)"
    R"(["schedule.unit","epoch",1,1,""],["schedule.base_lr","0.01",1,1,""],)"
    R"(["schedule.epochs","1",1,1,""],["schedule.step_epochs","30",1,1,""],)"
    R"(["schedule.gamma","0.1",1,1,""],["schedule.milestones","",1,1,""],)"
    R"(["schedule.divisor","5",1,1,""],["schedule.warmup_epochs","0",1,1,""],)"
    R"(["schedule.warmup_steps","0",1,1,""],["schedule.warmup_start","0",1,1,""],)"
    R"(["schedule.min_lr","0",1,1,""],["schedule.one_cycle_rise","0.3",1,1,""],)"
    R"(["schedule.one_cycle_start_div","25",1,1,""],["schedule.one_cycle_end_div","10000",1,1,""]])";

TEST(Resume, ACheckpointOfBeforeComponentsGoesOnAndIsCompared) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 1);
  options.settings = settings_from_json(kOldSettings);
  NamedRun().run(options);
  options.settings.clear();
  options.resume = "auto";
  options.epochs = 2;
  options.schedule_epochs = 1;
  options.optimizer.rule = Sgd{.lr = 0.02, .momentum = 0};
  EXPECT_EQ(2, NamedRun().run(options).epochs.back().epoch);
  EXPECT_THAT(testing::read_file(folder / "log"),
              HasSubstr("resumed with other options than before: epochs: 1 saved, 2 given; "
                        "optimizer.lr: 0.01 saved, 0.02 given\n"));
  options.optimizer.rule = Adam();
  EXPECT_THAT(NamedRun().refusal(options), HasSubstr("was trained with sgd"));
}

TEST(Resume, AnotherListOfShardsIsRefusedAndIfAllowedItsEpochBeginsAgain) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 2);
  stop_in_epoch(options);
  options.resume = "auto";
  NamedRun longer;
  longer.feed.data.shards.push_back({.name = "c.tar"});
  EXPECT_THAT(longer.refusal(options),
              AllOf(HasSubstr("2 shards saved, 3 given"), HasSubstr("--allow-changed-data")));
  options.accept_changed_data = true;
  EXPECT_EQ(64, longer.run(options).epochs.at(0).train_samples);
  EXPECT_THAT(testing::read_file(folder / "log"),
              AllOf(HasSubstr("the epoch begins again"), HasSubstr("at epoch 1, step 0")));
}

TEST(Resume, InMidEpochOnlyItsOwnInputWillDo) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 2);
  stop_in_epoch(options);
  options.resume = "auto";
  NamedRun shuffled;
  shuffled.feed.data.options[0].second = "200";
  EXPECT_THAT(shuffled.refusal(options), HasSubstr("shuffle: 100 saved, 200 given"));
  NamedRun longer;
  longer.feed.data.shards.push_back({.name = "c.tar"});
  EXPECT_THAT(longer.refusal(options), HasSubstr("2 shards saved, 3 given"));
  NamedRun other;
  other.feed.data.shards[1].name = "z.tar";
  EXPECT_THAT(other.refusal(options), HasSubstr("shard 2 of the list: b.tar saved, z.tar given"));
  EXPECT_EQ("", NamedRun().refusal(options));
}

TEST(Resume, WhatMayDifferIsWarnedOfWithBothValues) {
  const testing::TempDir folder;
  TrainOptions options = after_an_epoch(folder);
  options.seed = 9;
  NamedRun other(2, 8);
  other.feed.data.options[0].second = "200";
  EXPECT_EQ("", other.refusal(options));
  EXPECT_THAT(testing::read_file(folder / "log"),
              AllOf(HasSubstr("devices: 1 saved, 2 given"), HasSubstr("seed: 0 saved, 9 given"),
                    HasSubstr("global batch: 8 saved, 16 given"),
                    HasSubstr("shuffle: 100 saved, 200 given")));
}

TEST(Resume, InMidEpochAnyDevicesOfTheSameGlobalBatchWillDo) {
  const testing::TempDir whole;
  const double loss =
      *find_value(NamedRun().run(options_of_resume(whole, 1)).epochs[0].train, "loss");
  for (const auto& [devices, batch_size, accumulate] :
       std::vector<std::tuple<int, std::int64_t, std::int64_t>>{{2, 4, 1}, {1, 4, 2}, {2, 2, 2}}) {
    const testing::TempDir folder;
    TrainOptions options = options_of_resume(folder, 1);
    stop_in_epoch(options);
    ASSERT_EQ(3, read_checkpoint_state(folder / "run/checkpoints/last").step_in_epoch);
    options.resume = "auto";
    options.accumulate = accumulate;
    const FitResult result = NamedRun(devices, batch_size).run(options);
    EXPECT_NEAR(loss, *find_value(result.epochs[0].train, "loss"), 1e-6) << devices;
    EXPECT_EQ(64, result.epochs[0].train_samples);
    EXPECT_THAT(testing::read_file(folder / "log"), HasSubstr("at epoch 1, step 3"));
  }
}

TEST(Resume, InMidEpochAnotherGlobalBatchIsRefusedWithTheNearest) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 1);
  stop_in_epoch(options);
  options.resume = "auto";
  EXPECT_THAT(NamedRun(1, 16).refusal(options),
              HasSubstr("8 = 1 device x 8 saved, 16 = 1 device x 16 given; a batch size of 8 "
                        "continues it"));
  EXPECT_THAT(NamedRun(3, 8).refusal(options),
              HasSubstr("24 = 3 devices x 8 given; 1 device with a batch size of 8 continue it"));
  options.accumulate = 2;
  EXPECT_THAT(NamedRun(2, 8).refusal(options),
              HasSubstr("32 = 2 devices x 8 x 2 batches per step given; a batch size of 2"));
}

TEST(Resume, TheShardThatFailedMayHoldSomethingElse) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 1);
  NamedRun broken;
  broken.feed.feed.before_batch = [](int, std::int64_t step) {
    if (step == 3) throw Error(ErrorCode::kTruncated, "cut", {.url = "file:///data/b.tar"});
  };
  EXPECT_THROW(broken.run(options), Error);
  options.resume = "auto";
  NamedRun mended;
  mended.feed.data.shards[1].bytes = 30'720;
  EXPECT_EQ("", mended.refusal(options));
}

TEST(Resume, ARunFolderIsACheckpoint) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 2);
  NamedRun().run(options);
  EXPECT_EQ(folder / "run/checkpoints/best", find_checkpoint(folder / "run", "best"));
  EXPECT_EQ(folder / "run/checkpoints/last", find_checkpoint(folder / "run", "last"));
  EXPECT_EQ(folder / "run/checkpoints/last", find_checkpoint(folder / "run/checkpoints", "last"));
  EXPECT_EQ(folder / "run/checkpoints/best",
            find_checkpoint(folder / "run/checkpoints/best", "last"));
  EXPECT_EQ(folder / "nothing", find_checkpoint(folder / "nothing", "last"));
  options.run_folder = folder / "second";
  options.resume = folder / "run";
  options.epochs = 3;
  EXPECT_EQ(1U, NamedRun().run(options).epochs.size());
  options.resume.clear();
  options.run_folder = folder / "third";
  options.init = folder / "run";
  EXPECT_EQ("", NamedRun().refusal(options));
}

std::string weights_of(const std::string& checkpoint) {
  return testing::read_file(checkpoint + "/model.safetensors");
}

TEST(Resume, AKillBetweenTheLastTwoRenamesLeavesALastCheckpoint) {
  for (const bool whole : {true, false}) {
    const testing::TempDir folder;
    TrainOptions options = options_of_resume(folder, 2);
    NamedRun().run(options);
    const std::string checkpoints = folder / "run/checkpoints";
    const std::string last = weights_of(checkpoints + "/last");
    fs::copy(checkpoints + "/last", checkpoints + "/.last.tmp");
    fs::rename(checkpoints + "/last", checkpoints + "/last.previous");
    if (!whole) fs::resize_file(checkpoints + "/.last.tmp/model.safetensors", 9);
    options.resume = "auto";
    NamedRun().run(options);
    EXPECT_EQ(last, weights_of(checkpoints + "/last")) << whole;
    EXPECT_THAT(testing::read_file(folder / "log"), HasSubstr("is restored"));
  }
}

TEST(Resume, ARunThatWasKilledBetweenBestAndLastSavesLast) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 2);
  NamedRun().run(options);
  const std::string checkpoints = folder / "run/checkpoints";
  const std::string best = weights_of(checkpoints + "/best");
  fs::remove_all(checkpoints + "/last");
  options.resume = "auto";
  NamedRun().run(options);
  EXPECT_EQ(best, weights_of(checkpoints + "/last"));
}

/// The number of lines of a run's metrics.
std::ptrdiff_t lines_of(const std::string& path) {
  const std::string text = testing::read_file(path);
  return std::ranges::count(text, '\n');
}

// A run that has fewer steps than the one before it, as one that was stopped early.
TEST(Resume, ARunThatStartsOverSetsTheEarlierOneAside) {
  const testing::TempDir folder;
  TrainOptions options = options_of_resume(folder, 3);
  options.checkpoint.top_k = 1;
  NamedRun().run(options);
  const std::string earlier = weights_of(folder / "run/checkpoints/best");
  const auto lines = lines_of(folder / "run/metrics.csv");
  testing::write_file(folder / "run/notes.txt", "mine");
  options.epochs = 1;
  options.checkpoint.top_k = 0;
  options.optimizer.rule = Sgd{.lr = 0.02, .momentum = 0};
  NamedRun().run(options);

  EXPECT_EQ(earlier, weights_of(folder / "run/replaced-1/checkpoints/best"));
  EXPECT_EQ(lines, lines_of(folder / "run/replaced-1/metrics.csv"));
  EXPECT_GT(lines, lines_of(folder / "run/metrics.csv"));
  EXPECT_TRUE(fs::exists(folder / "run/notes.txt"));
  EXPECT_THAT(testing::read_file(folder / "log"),
              AllOf(HasSubstr("run/replaced-1 now: checkpoints, "), HasSubstr("metrics.jsonl")));
  const std::string last = weights_of(folder / "run/checkpoints/last");
  EXPECT_EQ(last, weights_of(folder / "run/checkpoints/best"));
  options.resume = "auto";
  EXPECT_TRUE(NamedRun().run(options).epochs.empty()) << "it is the new one that is done";
  EXPECT_EQ(last, weights_of(folder / "run/checkpoints/last"));
}

TEST(Resume, CheckpointsThatAreAllDamagedAreNotReplaced) {
  const testing::TempDir folder;
  const TrainOptions options = after_an_epoch(folder);
  const std::string checkpoints = folder / "run/checkpoints";
  for (const char* name : {"/last", "/best"})
    fs::resize_file(checkpoints + name + "/model.safetensors", 9);
  EXPECT_THAT(NamedRun().refusal(options), AllOf(HasSubstr(checkpoints), HasSubstr("--force")));
  EXPECT_EQ(9U, fs::file_size(checkpoints + "/last/model.safetensors"));
  fs::remove_all(checkpoints);
  EXPECT_EQ("", NamedRun().refusal(options));
  EXPECT_THAT(testing::read_file(folder / "log"), HasSubstr("the run begins anew"));
}

TEST(RunLock, ASecondRunInAFolderIsRefused) {
  const testing::TempDir folder;
  const TrainOptions options = options_of_resume(folder, 1);
  {
    const RunLock lock(folder / "run");
    EXPECT_THAT(NamedRun().refusal(options),
                AllOf(HasSubstr("another run writes to " + (folder / "run")),
                      HasSubstr("(process " + std::to_string(::getpid()) + ")")));
    EXPECT_THROW(check_not_running(folder / "run"), Error);
  }
  EXPECT_FALSE(fs::exists(folder / "run/checkpoints"));
  EXPECT_EQ("", NamedRun().refusal(options));
  EXPECT_NO_THROW(check_not_running(folder / "run"));
  EXPECT_NO_THROW(check_not_running(folder / "none"));
  EXPECT_FALSE(fs::exists(folder / "none"));
}

TEST(RunLock, DiesWithItsProcess) {
  const testing::TempDir folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const RunLock lock(folder / "run");
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(RunLock(folder / "run"));
}

/// Deletes the run's folder at a step.
class Deleter final : public Observer {
 public:
  explicit Deleter(std::string path) : path_(std::move(path)) {}
  void on_step(const StepEvent& event) override {
    if (event.global_step == 3) fs::remove_all(path_);
  }

 private:
  std::string path_;
};

TEST(RunLock, ARunFolderThatIsDeletedDuringTheRunFailsIt) {
  const testing::TempDir folder;
  const TrainOptions options = options_of_resume(folder, 2);
  Deleter deleter(folder / "run");
  try {
    NamedRun().run(options, {&deleter});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kIo, error.code());
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("folder was deleted or moved"), HasSubstr(folder / "run")));
  }
  EXPECT_FALSE(fs::exists(folder / "run")) << "it is not made again";
}

// A state that a run would write, to be mutated.
std::string sound_state() {
  TrainState state{.model = "linear", .epoch = 2, .global_step = 20, .optimizer = "sgd"};
  state.step_in_epoch = 4;
  state.batch_size = 8;
  state.monitor = "val_loss";
  state.best = 0.5;
  state.best_epoch = 1;
  state.top = {{"epoch-0001", 0.5}};
  state.position = pipeline::Position{.epoch = 2, .slots = 32}.to_json();
  state.meters = "[1.5,32]";
  return state.to_json();
}

TEST(HostileCheckpoint, NumbersThatNoRunWritesAreRefusedByName) {
  ASSERT_NO_THROW(TrainState::from_json(sound_state()));
  const std::vector<std::pair<std::string, std::string>> cases{
      {"epoch", "9223372036854775808"},
      {"epoch", "-1"},
      {"epoch", "1e300"},
      {"epoch", "2.5"},
      {"epoch", "\"2\""},
      {"step_in_epoch", "-1"},
      {"step_in_epoch", "9223372036854775807"},
      {"global_step", "-5"},
      {"global_step", "3"},
      {"world", "0"},
      {"world", "-1"},
      {"world", "4294967297"},
      {"batch_size", "-1"},
      {"accumulate", "0"},
      {"batch_size", "1099511627776"},
      {"best_epoch", "-1"},
      {"best", "\"x\""},
      {"seed", "-1"},
      {"top", R"([["../../etc", 1]])"},
      {"top", R"([["epoch-1/..", 1]])"},
      {"meters", R"(["x"])"},
      {"meters", R"({"a": 1})"},
      {"model", "\"" + std::string(1000, 'x') + "\""},
      {"position",
       R"({"epoch": 3, "process": 0, "processes": 1, "slots": 4, "turns": [0], "fingerprint": 0, )"
       R"("streams": []})"},
      {"position",
       R"({"epoch": 2, "process": 0, "processes": 1, "slots": -4, "turns": [0], "fingerprint": 0, )"
       R"("streams": []})"},
      {"data", R"({"options": {}, "shards": [["a.tar", -1, 5, ""]]})"},
      {"data", R"({"options": {}, "shards": [[]]})"}};
  for (const auto& [key, value] : cases) {
    auto json = nlohmann::json::parse(sound_state());
    json[key] = nlohmann::json::parse(value);
    try {
      TrainState::from_json(json.dump());
      ADD_FAILURE() << key << " " << value;
    } catch (const Error& error) {
      EXPECT_EQ(ErrorCode::kCorrupt, error.code()) << key << " " << value;
      EXPECT_LT(error.message().size(), 300U) << key;
    }
  }
}

TEST(HostileCheckpoint, AFileThatClaimsMoreThanTheModelNeedsIsNotRead) {
  const testing::TempDir folder;
  NamedRun().run(options_of_resume(folder, 1));
  const std::string last = folder / "run/checkpoints/last";
  auto manifest = nlohmann::json::parse(testing::read_file(last + "/manifest.json"));
  manifest["files"]["model.safetensors"]["bytes"] = std::uint64_t{1} << 40;
  fs::resize_file(last + "/model.safetensors", std::uint64_t{1} << 40);  // sparse
  testing::write_file(last + "/manifest.json", manifest.dump());
  std::vector<float> values(NamedRun().model.parameters().padded_size());
  const testing::LinearModel model(6, 2);
  try {
    load_checkpoint_model(last, "linear", {{.table = &model.parameters(), .values = values}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kCorrupt, error.code());
    EXPECT_THAT(error.what(), HasSubstr("a file of 1099511627776 bytes"));
  }
}

TEST(Checkpoint, HoldsAShuffleBufferInFewBytes) {
  auto start = std::make_shared<wds::StreamPosition>();
  for (std::uint32_t i = 0; i < 10'000; ++i)
    start->buffered.push_back({3 + (i * 7) % 3, std::uint64_t{512} * 220 * ((i * 7919) % 10'000)});
  TrainState state{.model = "linear", .epoch = 2, .step_in_epoch = 4, .global_step = 20};
  state.position =
      pipeline::Position{.epoch = 2, .slots = 4, .streams = {{.start = start}}}.to_json();
  const std::string text = state.to_json();
  EXPECT_LT(text.size(), 120'000U) << "378,000 with indentation, a number per line";
  const auto back = pipeline::Position::from_json(TrainState::from_json(text).position);
  ASSERT_EQ(start->buffered.size(), back.streams[0].start->buffered.size());
  for (std::size_t i = 0; i < start->buffered.size(); ++i) {
    ASSERT_EQ(start->buffered[i].shard, back.streams[0].start->buffered[i].shard) << i;
    ASSERT_EQ(start->buffered[i].offset, back.streams[0].start->buffered[i].offset) << i;
  }
}

}  // namespace
}  // namespace millrace::trainer
