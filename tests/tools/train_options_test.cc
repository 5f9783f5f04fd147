// Options of train: the effect of each on a run, end to end on synthetic data.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <set>

#include "io/file_system.h"
#include "tests/support/effort.h"
#include "tests/support/tar_builder.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainOptions : public ::testing::Test {
 protected:
  TrainOptions() : shards_(make_set(dir_, 96, 48)) {
    write_file(
        dir_ / "base.toml",
        "model = \"lenet\"\nchannels = 3\nsize = 16\nclasses = 10\nlr = 0.05\nbatch-size = 8\n"
        "log-steps = 1\nprecision = \"fp32\"\njson = true\nwarmup-steps = 0\n");
  }

  ProcessResult run(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train", "--config", dir_ / "base.toml"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  }
  std::vector<nlohmann::json> train(std::vector<std::string> more) const {
    more.insert(more.begin(), {"--train", shards_, "--run-dir", "none"});
    const ProcessResult result = run(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return json_lines(result.out);
  }
  /// Exit status and standard error.
  std::pair<int, std::string> train_mix(const std::vector<std::string>& sets,
                                        const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"--run-dir", "none"};
    for (const std::string& set : sets) words.insert(words.end(), {"--train", set});
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run(words);
    return {result.status, result.err};
  }
  static std::vector<double> of_steps(const std::vector<nlohmann::json>& events,
                                      const std::string& what) {
    std::vector<double> values;
    for (const auto& event : events)
      if (event["event"] == "step") values.push_back(event[what]);
    return values;
  }
  std::vector<double> rates(const std::vector<std::string>& more) const {
    return of_steps(train(more), "lr");
  }

  TempDir dir_;
  std::string shards_;
};

TEST_F(TrainOptions, MixUpAndCutMixTrainAnotherRunAtAnyNumberOfThreadsTheSame) {
  const auto losses = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--epochs", "1", "--seed", "4"});
    return of_steps(train(more), "loss");
  };
  const auto plain = losses({});
  const auto mixed = losses({"--mixup", "0.4", "--cutmix", "1"});
  ASSERT_EQ(mixed.size(), plain.size());
  EXPECT_NE(mixed, plain);
  EXPECT_NE(losses({"--mixup", "0.4"}), mixed);
  EXPECT_EQ(losses({"--mixup", "0.4", "--cutmix", "1", "--threads", "3"}), mixed);
  write_file(dir_ / "base.toml", read_file(dir_ / "base.toml") + "mixup = 0.4\ncutmix = 1\n");
  EXPECT_EQ(losses({}), mixed) << "from the file";
}

TEST_F(TrainOptions, MixUpIsRefusedWhereThereIsNoLabelForEachPicture) {
  const auto refusal = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", shards_, "--run-dir", "none"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_THAT(refusal({"--model", "unet(width=4)", "--task", "mask", "--mixup", "0.2"}),
              HasSubstr("--mixup and --cutmix mix labels of whole pictures"));
  EXPECT_THAT(refusal({"--model", "lenet", "--cutmix", "-1"}),
              HasSubstr("--cutmix: '-1': must be at least 0"));
}

/// A shard of 20 pictures, "0" to "19" by `keys`, each with its own pixels and class.
std::string shard_of(const std::vector<int>& keys) {
  TarBuilder tar;
  for (const int key : keys) {
    std::string ppm = "P6\n16 16\n255\n";
    for (int i = 0; i < 768; ++i) ppm += static_cast<char>(key * 37 + i * (key + 1));
    const std::string name = std::to_string(key);
    tar.file(name + ".cls", std::to_string(key % 10)).file(name + ".ppm", ppm);
  }
  return tar.end().bytes();
}

// The order is wds.shuffle(1000, initial=100, seed=0)'s of 20 samples, run with WebDataset 1.0.2.
TEST_F(TrainOptions, TrainsInWebDatasetsOrder) {
  std::vector<int> plain(20);
  std::iota(plain.begin(), plain.end(), 0);
  write_file(dir_ / "plain.tar", shard_of(plain));
  write_file(dir_ / "shuffled.tar",
             shard_of({12, 13, 1, 8, 15, 6, 19, 4, 7, 5, 9, 3, 2, 11, 17, 0, 14, 16, 18, 10}));
  const auto losses = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--run-dir", "none", "--deterministic", "--seed", "0", "--augment",
                             "none", "--batch-size", "4"});
    const ProcessResult result = run(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return of_steps(json_lines(result.out), "loss");
  };
  const auto expected = losses({"--train", dir_ / "shuffled.tar", "--shuffle", "0"});
  ASSERT_EQ(expected.size(), 5U);
  EXPECT_EQ(losses({"--train", dir_ / "plain.tar", "--shuffle", "1000", "--order", "webdataset"}),
            expected);
  EXPECT_NE(losses({"--train", dir_ / "plain.tar", "--shuffle", "1000"}), expected);
}

TEST_F(TrainOptions, AccumulatedBatchesAreFewerSteps) {
  EXPECT_EQ(of_steps(train({}), "loss").size(), 12U);
  EXPECT_EQ(of_steps(train({"--accumulate", "4"}), "loss").size(), 3U);
}

TEST_F(TrainOptions, ClippingAndDecayChangeTheRun) {
  const auto plain = of_steps(train({}), "loss");
  for (const std::vector<std::string>& one :
       std::vector<std::vector<std::string>>{{"--clip-norm", "0.1"},
                                             {"--clip-value", "0.01"},
                                             {"--nesterov"},
                                             {"--weight-decay", "0.1"},
                                             {"--weight-decay", "0.1", "--no-decay-norms-biases"},
                                             {"--label-smoothing", "0.1"},
                                             {"--optimizer", "lars"}}) {
    EXPECT_NE(of_steps(train(one), "loss").back(), plain.back()) << one[0];
  }
  EXPECT_EQ(of_steps(train({"--clip-norm", "1e9", "--deterministic"}), "loss"), plain);
}

TEST_F(TrainOptions, ModelsAndTasksAreCallsWithShortFormsOfTheirParameters) {
  const auto smoothed = of_steps(train({"--label-smoothing", "0.1"}), "loss");
  EXPECT_EQ(of_steps(train({"--task", "classify(label_smoothing=0.1)"}), "loss"), smoothed);
  EXPECT_EQ(of_steps(train({"--task.label-smoothing", "0.1"}), "loss"), smoothed);
  write_file(dir_ / "base.toml", read_file(dir_ / "base.toml") +
                                     "\n[task]\nname = \"classify\"\nlabel_smoothing = 0.1\n");
  EXPECT_EQ(of_steps(train({}), "loss"), smoothed);
  const std::string all = millrace({"train", "--help"}).out;
  for (const char* gone : {"--stem", "--label-smoothing", "--mask-loss", "--mask-colors"})
    EXPECT_THAT(all, Not(HasSubstr(gone))) << gone;
  const std::string aliases = millrace({"train", "--help", "aliases"}).out;
  for (const char* alias :
       {"--stem ", "--label-smoothing ", "--label-key ", "--mask-loss ", "--depth-loss ",
        "--loss-weights ", "--mask-value ", "--mask-field ", "--depth-field ", "--ignore-index ",
        "--class-weights ", "--mask-colors "})
    EXPECT_THAT(aliases, HasSubstr(alias)) << alias;
  EXPECT_THAT(millrace({"train", "--help", "segment"}).out,
              AllOf(HasSubstr("ignore_index"), HasSubstr("mask_loss ce|ce+dice")));
  EXPECT_THAT(millrace({"train", "--help", "resnet18"}).out, HasSubstr("stem imagenet|3x3"));
}

TEST_F(TrainOptions, WarmUpRisesByStepAndThenTheScheduleFalls) {
  const auto lr = rates({"--epochs", "3", "--schedule", "step(1, gamma=0.2, warmup=0.9ep)"});
  ASSERT_EQ(lr.size(), 36U);
  EXPECT_EQ(lr[0], 0.0);
  EXPECT_NEAR(lr[5], 0.05 * (5.0 / 12.0) / 0.9, 1e-6);
  EXPECT_NEAR(lr[11], 0.05, 1e-6);
  EXPECT_NEAR(lr[12], 0.01, 1e-6);
  EXPECT_NEAR(lr[24], 0.002, 1e-6);
}

TEST_F(TrainOptions, SgdWarmsUpUnlessToldOtherwise) {
  write_file(dir_ / "base.toml",
             "model = \"lenet\"\nchannels = 3\nsize = 16\nclasses = 10\nlr = 0.05\nbatch-size = 8\n"
             "log-steps = 1\njson = true\nschedule = \"constant\"\n");
  EXPECT_NEAR(rates({"--epochs", "10", "--epoch-samples", "96"})[5], 0.05 * 6 / 12, 1e-7)
      << "a tenth of 120 steps";
  EXPECT_NEAR(rates({"--epochs", "10", "--no-scan"})[5], 0.05 * 6 / 100, 1e-7) << "nobody knows";
  EXPECT_NEAR(rates({"--epochs", "10", "--limit-train-batches", "6"})[2], 0.05 * 3 / 6, 1e-7)
      << "a tenth of 60 steps at most";
  EXPECT_NEAR(rates({"--epochs", "10", "--steps-per-epoch", "4"})[1], 0.05 * 2 / 4, 1e-7);
  EXPECT_NEAR(rates({"--warmup-steps", "4"})[1], 0.05 * 2 / 4, 1e-7);
  EXPECT_NEAR(rates({"--warmup-steps", "4"})[4], 0.05, 1e-7);
  EXPECT_NEAR(rates({"--optimizer", "adam"})[0], 0.05, 1e-7);
  EXPECT_EQ(rates({"--warmup-epochs", "1"})[0], 0.0);
}

TEST_F(TrainOptions, EveryRuleBringsARateForItsBatch) {
  write_file(dir_ / "base.toml", "model = \"lenet\"\nchannels = 3\nsize = 16\nclasses = 10\n");
  const auto header = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "--train", shards_, "--run-dir", "none", "--batch-size", "8", "--limit-train-batches", "4"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  };
  EXPECT_THAT(header({"--optimizer", "adam"}), HasSubstr("adam lr 0.001 (default) cosine,"));
  EXPECT_THAT(header({"--optimizer", "adamw"}), HasSubstr("adamw lr 0.001 (default)"));
  EXPECT_THAT(
      header({"--epoch-samples", "96"}),
      HasSubstr(
          "sgd lr 0.003125 (default 0.05 is for 128 samples per step) "
          "cosine after 1 step of warm-up (the run has 4 steps; sgd learns little in so few)"));
  EXPECT_THAT(header({"--devices", "2", "--accumulate", "2"}), HasSubstr("sgd lr 0.0125 ("));
  EXPECT_THAT(header({"--optimizer", "lars"}), HasSubstr("lars lr 0.25 (default 4 is for 128"));
  EXPECT_THAT(header({"--lr", "0.02"}), HasSubstr("sgd lr 0.02 cosine"));
}

TEST_F(TrainOptions, ARunThatEndsInItsWarmUpSaysSo) {
  const std::vector<std::string> words = {
      "train", "--train",    shards_, "--run-dir", "none", "--model",      "lenet", "--classes",
      "10",    "--channels", "3",     "--size",    "16",   "--batch-size", "8"};
  const auto run_with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return millrace(all).err;
  };
  EXPECT_THAT(
      run_with({"--no-scan"}),
      AllOf(HasSubstr("100 steps of warm-up (no indexes: the length of the run is unknown)"),
            HasSubstr("in its warm-up, after 12 of 100 steps: the learning rate never "
                      "reached 0.003125")));
  EXPECT_THAT(run_with({"--steps-per-epoch", "12"}), Not(HasSubstr("in its warm-up")));
  EXPECT_THAT(run_with({"--warmup", "5ep"}), HasSubstr("in its warm-up, after 12 of 60 steps"));
}

TEST_F(TrainOptions, AResumedRunKeepsItsDefaultWarmUp) {
  const auto run_with = [&](const std::string& epochs, const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "train", "--train",   shards_, "--run-dir",    dir_ / "run", "--model",
        "lenet", "--classes", "10",    "--channels",   "3",          "--size",
        "16",    "--epochs",  epochs,  "--batch-size", "8"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(0, result.status) << result.err;
    return result.err;
  };
  EXPECT_THAT(run_with("1", {"--epoch-samples", "96"}), HasSubstr("1 step of warm-up (the run"));
  EXPECT_THAT(run_with("4", {"--epoch-samples", "96", "--resume", "auto"}),
              HasSubstr("1 step of warm-up (as the resumed run has it)"))
      << "it would be 4";
  EXPECT_THAT(
      run_with("5", {"--epoch-samples", "96", "--resume", "auto", "--schedule.warmup", "6steps"}),
      HasSubstr("6 steps of warm-up"));
}

// pipeline/README.md says so. Under a sanitizer shadow memory counts as resident.
constexpr std::size_t kDigitsBytes = kSanitized ? SIZE_MAX : 200'000'000;
constexpr std::size_t kRecipesOrderBytes = kSanitized ? SIZE_MAX : 500'000'000;
constexpr std::size_t kFullBuffersBytes = kSanitized ? SIZE_MAX : 1'000'000'000;

// The real digits: the result for a user who only names an optimizer, and the memory that it takes.
TEST(TrainDefaults, NoOptimizerEndsAtChance) {
  const char* data = std::getenv("MILLRACE_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA names no folder";
  const std::string mnist = std::string(data) + "/mnist/";
  const auto batches = is_long() ? std::vector<std::string>{"16"} : std::vector<std::string>{"128"};
  for (const std::string optimizer : {"sgd", "adam", "adamw", "lion", "lars", "lamb", "muon"}) {
    for (const std::string& batch : batches) {
      const ProcessResult result = millrace(
          {"train", mnist + "train-{000000..000003}.tar", "--val", mnist + "test-000000.tar",
           "--model", "lenet", "--classes", "10", "--optimizer", optimizer, "--batch-size", batch,
           "--run-dir", "none", "--log-steps", "0", "--target-accuracy",
           optimizer == "lion" ? "30" : "60"});  // 62 steps of one size do not lead far
      EXPECT_EQ(result.status, 0) << optimizer << " at " << batch << ": " << result.err;
      EXPECT_LT(result.peak_bytes, kDigitsBytes) << optimizer << " at " << batch;
    }
  }
}

/// The most memory that it takes to read pictures of 100 KB from so many shards of 40.
std::size_t peak_in_order(const std::string& order, int shards) {
  const TempDir dir;
  const ProcessResult made = millrace(
      {"create", dir / "p-%06d.tar", "--synthetic", "classes", "--count", "40", "--size", "300"});
  EXPECT_EQ(made.status, 0) << made.err;
  for (int i = 1; i < shards; ++i) {
    const std::string name = fmt::format("p-{:06}.tar", i);
    std::filesystem::copy_file(dir / "p-000000.tar", dir / name);
    std::filesystem::copy_file(dir / "p-000000.tar.index.json", dir / (name + ".index.json"));
  }
  const ProcessResult result =
      millrace({"bench", dir / fmt::format("p-{{000000..{:06}}}.tar", shards - 1), "--order", order,
                "--size", "224", "--augment", "rrc, hflip", "--seconds", "5"});
  EXPECT_EQ(result.status, 0) << result.err;
  return result.peak_bytes;
}

// Many times more than are read at once, as the recipes for ImageNet take them.
TEST(MemoryOfARun, InTheOrderOfTheRecipesForImageNetIsHalfAGigabyteAtMost) {
  if (!is_long()) GTEST_SKIP() << "only in the long suite";
  EXPECT_LT(peak_in_order("permutation(copies=4)", 60), kRecipesOrderBytes);
}

// 1.1 GB of pictures are in the buffers, half of them set aside.
TEST(MemoryOfARun, WithFullShuffleBuffersIsAGigabyteAtMost) {
  if (!is_long()) GTEST_SKIP() << "only in the long suite";
  if (io::is_in_network_file_system(TempDir().path())) GTEST_SKIP() << "files are on a network";
  EXPECT_LT(peak_in_order("shuffled(5000)", 300), kFullBuffersBytes);
}

TEST_F(TrainOptions, SchedulesByEpochAndByStep) {
  const auto cuts = rates({"--epochs", "3", "--schedule", "multi-step", "--milestones", "1,2"});
  EXPECT_NEAR(cuts[11], 0.05, 1e-7);
  EXPECT_NEAR(cuts[12], 0.005, 1e-7);
  EXPECT_NEAR(cuts[35], 0.0005, 1e-7);
  const auto cycle = rates({"--schedule", "one-cycle"});
  EXPECT_NEAR(cycle[0], 0.05 / 25, 1e-6);
  EXPECT_GT(cycle[4], cycle[0]);
  EXPECT_LT(cycle[11], cycle[4]);
  const auto cosine = rates({"--schedule", "cosine", "--schedule-unit", "step"});
  EXPECT_NEAR(cosine[6], 0.025, 1e-6);
  const auto told =
      rates({"--schedule", "cosine", "--schedule-unit", "step", "--steps-per-epoch", "24"});
  EXPECT_NEAR(told[6], cosine[3], 1e-6);
}

TEST_F(TrainOptions, ACallItsFieldsAndTheShortFormsAreTheSame) {
  const auto first = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--schedule", "constant"};
    words.insert(words.end(), more.begin(), more.end());
    return rates(words).back();
  };
  EXPECT_NEAR(first({"--optimizer", "sgd(0.02)"}), 0.02, 1e-7) << "the file's lr gives way";
  EXPECT_NEAR(first({"--optimizer", "SGD(momentum=0.5)"}), 0.05, 1e-7) << "the file's lr stays";
  EXPECT_NEAR(rates({"--schedule", "one-cycle"})[0], 0.05 / 25, 1e-7) << "it has no warm-up";
  EXPECT_NEAR(first({"--optimizer.lr", "0.03"}), 0.03, 1e-7);
  EXPECT_NEAR(first({"--learning-rate=0.03"}), 0.03, 1e-7);
  EXPECT_NEAR(first({"--optimizer", "sgd(0.02)", "--lr", "0.04"}), 0.04, 1e-7) << "one alone";
  const auto cosine = rates({"--schedule", "cosine(to=0.01, by=step, warmup=6steps)"});
  EXPECT_EQ(cosine, rates({"--min-lr", "0.01", "--schedule-unit", "step", "--warmup-steps", "6"}));
  EXPECT_EQ(cosine,
            rates({"--schedule.to=0.01", "--schedule.by", "step", "--schedule.warmup=6steps"}));
  const std::string groups = "sgd(weight_decay=0.1, groups=[group(norms-biases, weight_decay=0)])";
  EXPECT_EQ(of_steps(train({"--optimizer", groups}), "loss"),
            of_steps(train({"--weight-decay", "0.1", "--no-decay-norms-biases"}), "loss"));
}

TEST_F(TrainOptions, HelpExplainsOneComponentAndTheShortForms) {
  const ProcessResult sgd = millrace({"train", "--help", "sgd"});
  EXPECT_EQ(sgd.status, 0) << sgd.err;
  EXPECT_THAT(sgd.out,
              AllOf(HasSubstr("momentum=0.9"), HasSubstr("(at least 0 and below 1) [0.9]")));
  EXPECT_THAT(millrace({"help", "train", "CosineAnnealingLR"}).err, HasSubstr("no help on"));
  EXPECT_THAT(millrace({"train", "--help", "cosine"}).out, HasSubstr("warmup Xep|Nsteps"));
  EXPECT_THAT(millrace({"train", "--help", "optimizer"}).out,
              AllOf(HasSubstr("sgd"), HasSubstr("lars")));
  EXPECT_THAT(millrace({"train", "--help", "cosin"}).err, HasSubstr("did you mean cosine?"));
  EXPECT_THAT(millrace({"train", "--help", "aliases"}).out,
              AllOf(HasSubstr("--momentum "), HasSubstr("--optimizer.momentum"),
                    HasSubstr("--max-epochs"), HasSubstr("--schedule.warmup Nep")));
  EXPECT_THAT(millrace({"train", "--help"}).out, Not(HasSubstr("--momentum")));
}

TEST_F(TrainOptions, TheScaledRateIsPrintedBothWays) {
  const ProcessResult result = run({"--train", shards_, "--run-dir", "none", "--devices", "2",
                                    "--scale-lr", "--schedule", "constant"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("Learning rate 0.05 x 2 devices = 0.1"));
  EXPECT_NEAR(of_steps(json_lines(result.out), "lr").front(), 0.1, 1e-6);
}

TEST_F(TrainOptions, OverfittingSeesTheSameBatchesAndScoresThem) {
  const auto events = train({"--overfit-batches", "2", "--epochs", "3", "--augment", "crop-flip",
                             "--lr", "1e-9", "--schedule", "constant"});
  const auto losses = of_steps(events, "loss");
  ASSERT_EQ(losses.size(), 6U);
  EXPECT_NEAR(losses[0], losses[2], 1e-5);
  EXPECT_NEAR(losses[1], losses[5], 1e-5);
  EXPECT_EQ(events[events.size() - 2]["val_samples"], 16);
}

TEST_F(TrainOptions, EpochSamplesCutTheEpoch) {
  const auto events = train({"--epoch-samples", "40"});
  EXPECT_EQ(events[events.size() - 2]["train_samples"], 40);
}

TEST_F(TrainOptions, StreamsAreOneNameForTheOrder) {
  EXPECT_EQ(of_steps(train({"--streams", "2"}), "loss"),
            of_steps(train({"--workers", "2"}), "loss"));
  EXPECT_NE(of_steps(train({"--streams", "1"}), "loss"),
            of_steps(train({"--workers", "2"}), "loss"));
}

TEST_F(TrainOptions, FakeDataNeedsNoShards) {
  const ProcessResult result = run({"--fake-data", "64", "--run-dir", "none", "--devices", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto events = json_lines(result.out);
  EXPECT_EQ(events[events.size() - 2]["train_samples"], 64);
}

TEST_F(TrainOptions, FoldsTrainOnAllButOneAndScoreThatOne) {
  for (const char* fold : {"0", "1", "2"}) {
    std::filesystem::create_directories(dir_ / ("fold" + std::string(fold)));
    for (const char* shard : {"set-000000.tar", "set-000001.tar"})
      std::filesystem::copy_file(dir_ / shard, dir_ / ("fold" + std::string(fold) + "/" + shard));
  }
  std::filesystem::remove(dir_ / "fold1/set-000001.tar");
  const ProcessResult result =
      run({"--train", dir_ / "fold{fold}", "--folds", "3", "--fold", "1", "--run-dir", "none"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto events = json_lines(result.out);
  EXPECT_EQ(events[events.size() - 2]["train_samples"], 2 * 96);
  EXPECT_EQ(events[events.size() - 2]["val_samples"], 48);
}

TEST_F(TrainOptions, AMissedTargetIsStatusOne) {
  const std::vector<std::string> words = {"--train", shards_,     "--val",
                                          shards_,   "--run-dir", "none"};
  auto high = words;
  high.insert(high.end(), {"--target-accuracy", "99.9", "--lr", "1e-9"});
  const ProcessResult missed = run(high);
  EXPECT_EQ(missed.status, 1);
  EXPECT_THAT(missed.err, HasSubstr("--target-accuracy"));
  auto low = words;
  low.insert(low.end(), {"--target-accuracy", "0.1", "--epochs", "2"});
  EXPECT_EQ(run(low).status, 0);
}

TEST_F(TrainOptions, SummaryNeedsNoDataAndWritesNothing) {
  const TempDir empty;
  const ProcessResult result =
      millrace({"train", "--model", "resnet18", "--summary"}, {.folder = empty.path().string()});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("layer4.1.conv2"), HasSubstr("11689512 parameters"),
                                HasSubstr("multiply-adds"), HasSubstr("MiB per sample")));
  EXPECT_TRUE(list_dir(empty.path().string()).empty());
  const ProcessResult json =
      millrace({"train", "--model", "lenet", "--classes", "10", "--summary", "--json"});
  EXPECT_EQ(json_lines(json.out).back()["parameters"], 61706);
}

TEST_F(TrainOptions, DumpPlanHasALineForEachLayerAndWritesNothing) {
  const TempDir empty;
  const ProcessResult result =
      millrace({"train", "--model", "lenet", "--classes", "10", "--batch-size", "4", "--dump-plan",
                "--limit-train-batches", "1"},
               {.folder = empty.path().string()});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* layer :
       {"\nconv1 + relu1  (1, 28, 28) > (6, 28, 28)\n", "\npool1  ", "\nconv2 + relu2  ",
        "\npool2  ", "\nflatten  ", "\nfc1 + relu3  ", "\nfc2 + relu4  ", "\nfc3  ", "\nlogits  "})
    EXPECT_EQ(count_of(result.out, layer), 2U) << layer;  // forward and backward
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("4 samples, bf16"), HasSubstr("GFLOP/s"), HasSubstr("GB/s"),
                    HasSubstr("GFLOP    MB     ms limit"), HasSubstr("  convolution dW "),
                    HasSubstr("  reorder W "), HasSubstr("\nSlowest: ")));
  for (const std::string& line : lines_of(result.out)) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_TRUE(list_dir(empty.path().string()).empty());
}

TEST_F(TrainOptions, DumpProgramWritesTheModuleAndWhatItsArgumentsAre) {
  const TempDir folder;
  const auto dump = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {
        "train", "--model",      "lenet", "--classes",      "10",      "--precision",
        "fp32",  "--batch-size", "4",     "--devices",      "2",       "--ema",
        "0.9",   "--optimizer",  "adam",  "--dump-program", "a/b.mlir"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words, {.folder = folder.path().string()});
  };
  ASSERT_EQ(0, dump({}).status) << dump({}).err;
  EXPECT_THAT(read_file(folder / "a/b.mlir"),
              AllOf(HasSubstr("mhlo.num_replicas = 2"), HasSubstr("stablehlo.all_reduce"),
                    HasSubstr("loc(\"conv2/backward\")"), HasSubstr("%conv1.weight")));
  const auto json = nlohmann::json::parse(read_file(folder / "a/b.mlir.json"));
  std::map<std::string, int> roles;
  for (const auto& argument : json["arguments"]) ++roles[argument["role"]];
  EXPECT_EQ((std::map<std::string, int>{{"weight", 10},
                                        {"state", 20},
                                        {"ema", 10},
                                        {"input", 1},
                                        {"target", 1},
                                        {"valid", 1},
                                        {"learning_rate", 1},
                                        {"step", 1},
                                        {"skipped", 1},
                                        {"num_valid", 1},
                                        {"random_key", 1}}),
            roles);
  const ProcessResult refused = dump({"--accumulate", "2"});
  EXPECT_EQ(1, refused.status);
  EXPECT_THAT(refused.err, HasSubstr("--accumulate"));
}

TEST_F(TrainOptions, DumpPlanAsJsonHasTimesAndLimitsOfEachStep) {
  const TempDir empty;
  const ProcessResult result =
      millrace({"train", "--model", "resnet18", "--size", "32", "--train", shards_, "--batch-size",
                "2", "--precision", "fp32", "--dump-plan", "--limit-train-batches", "1", "--json"},
               {.folder = empty.path().string()});
  ASSERT_EQ(result.status, 0) << result.err;
  auto lines = json_lines(result.out);
  const auto total = lines.back();
  lines.pop_back();
  std::set<std::string> layers;
  for (const auto& line : lines) {
    layers.insert(line["layer"]);
    EXPECT_GE(line["ms"].get<double>(), 0);
    EXPECT_TRUE(line["limit_share"].is_number());
    EXPECT_FALSE(line["kernel"].get<std::string>().empty());
    if (line["layer"] == "fc") {
      EXPECT_EQ(line["output"][0], 10) << "the classes of the shards";
    }
  }
  for (const char* layer : {"conv1", "bn1 + relu", "layer1.0.conv1", "layer2.0.downsample.0",
                            "layer4.1.bn2 + add + relu2", "avgpool", "fc"})
    EXPECT_TRUE(layers.contains(layer)) << layer;
  EXPECT_EQ(total["event"], "plan");
  EXPECT_EQ(total["precision"], "fp32");
  EXPECT_GT(total["peak_flops"].get<double>(), 0);
  EXPECT_GT(total["kinds_ms"]["convolution"].get<double>(), 0);
  EXPECT_TRUE(list_dir(empty.path().string()).empty());
}

TEST_F(TrainOptions, DumpProgramTakesTheClassesOfTheShards) {
  const auto outputs = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"train", "--model", "lenet", "--size", "16", "--channels", "3", "--precision",
                 "fp32", "--batch-size", "2", "--dump-program", dir_ / "step.mlir"});
    const ProcessResult result = millrace(more);
    EXPECT_EQ(result.status, 0) << result.err;
    const auto json = nlohmann::json::parse(read_file(dir_ / "step.mlir.json"));
    for (const auto& argument : json["arguments"])
      if (argument["name"] == "fc3.bias") return argument["shape"][0].get<int>();
    return 0;
  };
  EXPECT_EQ(outputs({"--train", shards_}), 10);
  EXPECT_EQ(outputs({"--fake-data", "8"}), 10);
  EXPECT_EQ(outputs({}), 1000);
}

TEST_F(TrainOptions, TiedLayersStayTiedInTheCheckpoint) {
  const std::vector<std::string> model = {
      "--model",   "resnet18", "--size", "16",
      "--stem",    "3x3",      "--tie",  "layer1.1.conv1=layer1.0.conv1",
      "--classes", "10"};
  auto words = model;
  words.insert(words.end(),
               {"--train", shards_, "--run-dir", dir_ / "tied", "--limit-train-batches", "1"});
  const ProcessResult trained = run(words);
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(
      trained.err,
      HasSubstr("Tied weights: 11137098 parameters where untied layers would have 11173962"));
  const ProcessResult scored =
      millrace({"eval", "--checkpoint", dir_ / "tied/checkpoints/last", shards_});
  EXPECT_EQ(scored.status, 0) << scored.err;
}

TEST_F(TrainOptions, InitTakesWeightsAndAReplacedHeadKeepsItsOwn) {
  const ProcessResult first = run({"--train", shards_, "--run-dir", dir_ / "first"});
  ASSERT_EQ(first.status, 0) << first.err;
  const std::string weights = dir_ / "first/checkpoints/last/model.safetensors";
  const std::vector<std::string> more = {"--train", shards_, "--run-dir", "none",
                                         "--init",  weights, "--classes", "12"};
  const ProcessResult refused = run(more);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("fc3.weight is (10, 84) in the file and (12, 84) in the model")));
  auto replaced = more;
  replaced.push_back("--replace-head");
  const ProcessResult result = run(replaced);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("fc3.weight is initialised, not read from"));
}

TEST_F(TrainOptions, CheckpointsAreKeptAsAskedFor) {
  const ProcessResult result =
      run({"--train",    shards_,    "--val",        shards_, "--run-dir",          dir_ / "run",
           "--epochs",   "3",        "--save-top-k", "1",     "--save-every-steps", "5",
           "--monitor",  "val_loss", "--ema",        "0.9",   "--sanity-val-steps", "1",
           "--max-time", "1h"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("Sanity check: 8 samples"));
  EXPECT_EQ(list_dir(dir_ / "run/checkpoints").size(), 3U) << "best, last, epoch-000N";
  EXPECT_TRUE(std::filesystem::exists(dir_ / "run/checkpoints/last/ema.safetensors"));
  EXPECT_EQ(json_lines(result.out).back()["monitor"], "val_loss");
  EXPECT_THAT(read_file(dir_ / "run/config.json"), HasSubstr(R"("save-top-k": 1)"));
}

TEST_F(TrainOptions, ACheckpointOfAnotherModelIsRefused) {
  ASSERT_EQ(run({"--train", shards_, "--run-dir", dir_ / "run"}).status, 0);
  const ProcessResult result =
      run({"--train", shards_, "--run-dir", "none", "--resume", dir_ / "run/checkpoints/last",
           "--model", "resnet18", "--size", "32"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("the checkpoint is of model lenet, the run of resnet18"));
  const ProcessResult shapes = run({"--train", shards_, "--run-dir", "none", "--resume",
                                    dir_ / "run/checkpoints/last", "--classes", "12"});
  EXPECT_EQ(shapes.status, 2);
  EXPECT_THAT(shapes.err, HasSubstr("fc3.weight is (10, 84)"));
}

TEST_F(TrainOptions, ALossThatIsNotFiniteEndsTheRunAndIsNotSaved) {
  const std::vector<std::string> wild = {"--train", shards_,     "--lr",
                                         "1e30",    "--run-dir", dir_ / "run"};
  const ProcessResult failed = run(wild);
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, HasSubstr("the loss is not finite at epoch 1, step"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "run/checkpoints/last"));
}

TEST_F(TrainOptions, SixteenIsANameForBf16AndDevicesMayBeNamedInAFile) {
  write_file(dir_ / "c.toml", "precision = 16\ndevices = [5]  # the sixth\n");
  const ProcessResult result = millrace({"train", "--train", shards_, "--config", dir_ / "c.toml",
                                         "--model", "lenet", "--channels", "3", "--size", "16",
                                         "--classes", "10", "--fast-dev-run", "--log-steps", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr(", bf16\n"), HasSubstr("Device=cpu:5/0"), Not(HasSubstr("cpu:0/"))));
}

TEST_F(TrainOptions, AMixIsTrainedInItsShares) {
  const TempDir other;
  const std::string more = make_set(other, 96, 48);
  const auto lines = train_mix({"0.75:" + shards_, "0.25:" + more}, {"--epochs", "1"});
  ASSERT_EQ(lines.first, 0) << lines.second;
  EXPECT_THAT(train_mix({"0.75:" + shards_, more}, {}).second,
              HasSubstr("in a mix every set has a weight"));
  for (const char* weight : {"0", "-1", "nan", "inf"})
    EXPECT_THAT(train_mix({weight + (":" + shards_), "1:" + more}, {}).second,
                HasSubstr("weights must be numbers above 0"))
        << weight;
  EXPECT_THAT(train_mix({"1:" + shards_}, {"--val", "0.5:" + more}).second,
              HasSubstr("what is evaluated has no weights"));
  EXPECT_THAT(train_mix({shards_}, {"--mix-end", "drop"}).second, HasSubstr("needs a mix"));
  EXPECT_THAT(train_mix({"1:" + shards_, "1:" + more},
                        {"--resampled", "--epoch-samples", "9", "--mix-end", "drop"})
                  .second,
              HasSubstr("--resampled have no end"));
  for (const std::vector<std::string>& epoch :
       {std::vector<std::string>{"--resampled", "--epoch-samples", "32"},
        std::vector<std::string>{"--repeat", "2", "--epoch-samples", "32"}})
    EXPECT_THAT(train_mix({"1:" + shards_, "1:" + more}, epoch), ::testing::Pair(0, ::testing::_));
  EXPECT_THAT(train_mix({"1:" + shards_, "1:" + more}, {"--mix-end", "never"}).second,
              HasSubstr("--mix-end"));
}

TEST_F(TrainOptions, JoinedLabelsTrainAsTheirOwnShardsDo) {
  const auto split = [&](const std::string& name, const char* suffixes) {
    const ProcessResult result = millrace({"reshard", shards_, dir_ / (name + "-%06d.tar"),
                                           "--select", suffixes, "--maxcount", "48"});
    EXPECT_EQ(result.status, 0) << result.err;
    return dir_ / (name + "-{000000..000001}.tar");
  };
  const std::string images = split("images", "png,jpg,jpeg");
  const std::string labels = split("labels", "cls");
  const auto losses = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"--run-dir", "none", "--classes", "0", "--epochs", "2"};
    all.insert(all.end(), words.begin(), words.end());
    const ProcessResult result = run(all);
    EXPECT_EQ(result.status, 0) << result.err;
    return of_steps(json_lines(result.out), "loss");
  };
  const auto whole = losses({"--train", shards_});
  EXPECT_EQ(whole.size(), 24U);
  EXPECT_EQ(losses({"--train", images, "--join", labels}), whole);
  EXPECT_EQ(losses({"--train", labels, "--join", images, "--order", "permutation"}),
            losses({"--train", shards_, "--order", "permutation"}));

  EXPECT_THAT(
      run({"--run-dir", "none", "--train", images, "--join", dir_ / "labels-000000.tar"}).err,
      HasSubstr("1 shard cannot complete 2 shards"));
  EXPECT_THAT(run({"--run-dir", "none", "--train", images, "--join", "-"}).err,
              HasSubstr("a pipe cannot be searched"));
  EXPECT_THAT(run({"--run-dir", "none", "--train", images, "--val-join", labels}).err,
              HasSubstr("need --val"));
  EXPECT_THAT(run({"--run-dir", "none", "--train", images, "--join", dir_ / "none.tar"}).err,
              HasSubstr("none.tar"));
}

TEST_F(TrainOptions, SkipAndTakeDivideASetForTrainingAndEvaluation) {
  const auto samples = [](const std::vector<nlohmann::json>& events, const char* what) {
    for (const auto& event : events)
      if (event["event"] == "epoch") return event[what].get<int>();
    return -1;
  };
  const auto events =
      train({"--epochs", "1", "--skip", "30", "--val", shards_, "--val-take", "30"});
  EXPECT_EQ(samples(events, "train_samples"), 66);
  EXPECT_EQ(samples(events, "val_samples"), 30);
  EXPECT_EQ(samples(train({"--epochs", "1", "--skip", "90", "--take", "90"}), "train_samples"), 6);
  const auto kept =
      train({"--epochs", "1", "--where", "key matches '*7'", "--copies", "2", "--on-fault", "skip",
             "--fill", "--val", shards_, "--val-where", "key matches '*3'"});
  EXPECT_EQ(samples(kept, "train_samples"), 9);
  EXPECT_EQ(samples(kept, "val_samples"), 10);

  const auto refused = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--train", shards_, "--run-dir", dir_ / "refused"});
    const ProcessResult result = run(more);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_FALSE(std::filesystem::exists(dir_ / "refused"));
    return result.err;
  };
  EXPECT_THAT(refused({"--skip", "96"}), HasSubstr("96 to skip leave nothing of 96 samples"));
  EXPECT_THAT(refused({"--where", "key == 'none'"}), HasSubstr("keeps none of 96 samples"));
  EXPECT_THAT(refused({"--take", "9", "--no-index", "--no-scan"}),
              HasSubstr("the number in each shard must be known"));
  EXPECT_THAT(refused({"--take", "9", "--order", "webdataset"}),
              HasSubstr("--skip-samples and --take-samples"));
  EXPECT_THAT(refused({"--val-take", "9"}), HasSubstr("need --val"));
  EXPECT_THAT(refused({"--val-where", "cls == 1"}), HasSubstr("need --val"));
  EXPECT_THAT(refused({"--take", "-1"}), HasSubstr("--take"));
}

}  // namespace
}  // namespace millrace::testing
