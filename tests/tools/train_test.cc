// train, eval and bench, end to end on synthetic data: devices, repeatability, what is skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "tests/support/nginx.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kTrainSamples = 150;

class Train : public ::testing::Test {
 protected:
  Train() : shards_(make_set(dir_, kTrainSamples, 50)) {}

  std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        "train",        "--train", shards_,       "--model", "lenet", "--json", "--channels", "3",
        "--devices",    "2",       "--optimizer", "adam",    "--lr",  "0.002",  "--size",     "16",
        "--batch-size", "16",      "--log-steps", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<nlohmann::json> train(const std::vector<std::string>& more) const {
    const ProcessResult result = millrace(words(more));
    EXPECT_EQ(result.status, 0) << result.err;
    return json_lines(result.out);
  }
  /// The losses of all steps, in order.
  static std::vector<double> losses(const std::vector<nlohmann::json>& events) {
    std::vector<double> losses;
    for (const auto& event : events)
      if (event["event"] == "step") losses.push_back(event["loss"]);
    return losses;
  }

  TempDir dir_;
  std::string shards_;
};

TEST_F(Train, TellsStepsEpochsAndTheEnd) {
  const auto events =
      train({"--val", shards_, "--epochs", "2", "--run-dir", dir_ / "run", "--precision", "fp32"});
  ASSERT_GE(events.size(), 3U);
  const auto& epoch = events[events.size() - 2];
  EXPECT_EQ(epoch["event"], "epoch");
  EXPECT_EQ(epoch["epoch"], 2);
  EXPECT_EQ(epoch["train_samples"], kTrainSamples);
  EXPECT_EQ(epoch["val_samples"], kTrainSamples);
  EXPECT_EQ(events.back()["event"], "end");
  EXPECT_EQ(events.back()["epochs"], 2);
  EXPECT_EQ(losses(events).size(), 2U * 5U);  // 150 samples, 32 per step
  for (const char* file : {"metrics.jsonl", "config.json", "checkpoints/last/model.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(dir_ / "run" + "/" + file)) << file;
}

TEST_F(Train, EvalScoresEverySampleOnceAsTrainDid) {
  const auto events = train({"--val", shards_, "--run-dir", dir_ / "run", "--precision", "fp32"});
  const auto& epoch = events[events.size() - 2];
  for (const char* devices : {"1", "3"}) {
    const ProcessResult result =
        millrace({"eval", shards_, "--checkpoint", dir_ / "run/checkpoints/last", "--json",
                  "--devices", devices, "--precision", "fp32", "--batch-size", "7"});
    ASSERT_EQ(result.status, 0) << result.err;
    const auto score = json_lines(result.out).at(0);
    EXPECT_EQ(score["val_samples"], kTrainSamples);
    EXPECT_NEAR(score["val_loss"].get<double>(), epoch["val_loss"].get<double>(), 1e-4);
    EXPECT_EQ(score["val_top1"], epoch["val_top1"]);
  }
}

TEST_F(Train, TheSameSeedGivesTheSameLossesAtAnyNumberOfThreads) {
  const auto one = losses(train({"--run-dir", "none", "--threads", "1"}));
  EXPECT_EQ(losses(train({"--run-dir", "none", "--threads", "4", "--prefetch", "1"})), one);
  EXPECT_NE(losses(train({"--run-dir", "none", "--seed", "5"})), one);
}

TEST_F(Train, ACacheOfDecodedPicturesChangesNoLoss) {
  const std::vector<std::string> usual = {"--run-dir", "none", "--epochs", "3", "--val", shards_};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), usual.begin(), usual.end());
    return train(more);
  };
  const auto plain = with({});
  for (const auto& more : std::vector<std::vector<std::string>>{
           {"--cache-decoded", "10MB"},
           {"--cache-decoded", "20kB", "--cache-decoded-in", dir_ / ""}}) {
    const auto cached = with(more);
    EXPECT_EQ(losses(cached), losses(plain));
    EXPECT_EQ(cached.at(cached.size() - 2)["val_loss"], plain.at(plain.size() - 2)["val_loss"]);
  }
}

TEST_F(Train, BenchCountsTheDecodedPictures) {
  const ProcessResult result = millrace(
      {"bench", shards_, "--json", "--seconds", "0.5", "--cache-decoded", "10MB", "--size", "16"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto pictures = json_lines(result.out).at(0)["pictures"];
  EXPECT_EQ(pictures["kept"], kTrainSamples);
  EXPECT_LE(pictures["decoded"], kTrainSamples + 64) << "but for those decoded twice at once";
  EXPECT_GT(pictures["found"], kTrainSamples);
}

TEST_F(Train, HttpGivesTheLossesOfLocalFiles) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  Nginx nginx(dir_.path());
  const auto local = losses(train({"--run-dir", "none"}));
  auto remote = words({"--run-dir", "none"});
  remote[2] = nginx.url("set-{000000..000002}.tar");
  const ProcessResult result = millrace(remote);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(losses(json_lines(result.out)), local);
}

TEST_F(Train, ATermSignalCheckpointsAndTheResumedRunIsTheUninterruptedOne) {
  const auto whole = losses(train({"--epochs", "8", "--run-dir", "none"}));
  const std::vector<std::string> run = {"--epochs", "8", "--run-dir", dir_ / "run"};
  // Stopped while it runs, wherever it is; then resumed again and again until it is done.
  std::vector<double> pieced;
  int status = 143;
  for (int piece = 0; status == 143 && piece < 50; ++piece) {
    auto more = run;
    if (piece > 0) more.insert(more.end(), {"--resume", "auto"});
    const ProcessResult result =
        millrace(words(more),
                 {.signal_after = std::chrono::milliseconds(150 + 100 * piece), .signal = SIGTERM});
    status = result.status;
    ASSERT_TRUE(status == 0 || status == 143) << result.err;
    const auto more_losses = losses(json_lines(result.out));
    pieced.insert(pieced.end(), more_losses.begin(), more_losses.end());
  }
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pieced, whole);
}

TEST_F(Train, ARunFolderIsNotReusedByAccident) {
  train({"--run-dir", dir_ / "run"});
  const ProcessResult refused = millrace(words({"--run-dir", dir_ / "run"}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--resume auto"));
}

TEST_F(Train, ALabelOutsideTheClassesIsAFaultThatNamesItsKey) {
  const ProcessResult result = millrace(words({"--run-dir", "none", "--classes", "3"}));
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("key 00000"));
}

TEST_F(Train, ACutShardEndsTheRunWithItsNameAndOffset) {
  const std::string shard = read_file(dir_ / "set-000001.tar");
  write_file(dir_ / "set-000001.tar", shard.substr(0, shard.size() / 2));
  const ProcessResult result = millrace(words({"--run-dir", "none"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("set-000001.tar"));
  EXPECT_THAT(result.err, HasSubstr("offset"));
}

TEST_F(Train, FastDevRunWritesNothing) {
  const auto before = list_dir(dir_.path().string());
  const auto events = train({"--fast-dev-run", "--val", shards_, "--run-dir", dir_ / "run"});
  EXPECT_EQ(losses(events).size(), 1U);
  EXPECT_EQ(list_dir(dir_.path().string()), before);
}

TEST_F(Train, BenchSaysWhatLimitsTheInput) {
  for (const char* stage : {"read", "decode", "train"}) {
    std::vector<std::string> words = {"bench", shards_,  "--stage",   stage, "--batch",
                                      "16",    "--json", "--seconds", "0.3"};
    if (stage != std::string("read"))
      words.insert(words.end(), {"--size", "16", "--channels", "3", "--model", "lenet"});
    const ProcessResult result = millrace(words);
    ASSERT_EQ(result.status, 0) << result.err;
    const auto report = json_lines(result.out).at(0);
    EXPECT_GT(report["samples_per_s"], 0);
    EXPECT_GT(report["bytes_per_s"], report["samples_per_s"]);
    EXPECT_TRUE(report["stages"].contains("read"));
    EXPECT_THAT(report["verdict"].get<std::string>(), HasSubstr("bound"));
  }
}

// ---- The lines of PyTorch/XLA's tutorials ----

/// Of a .npy file of float64.
std::vector<double> numbers_in(const std::string& path) {
  const std::string bytes = read_file(path);
  EXPECT_EQ(bytes.substr(0, 6), "\x93NUMPY");
  EXPECT_THAT(bytes, HasSubstr("'descr': '<f8'"));
  const std::size_t begin = bytes.find('\n') + 1;
  EXPECT_EQ(begin % 64, 0U);
  std::vector<double> values((bytes.size() - begin) / sizeof(double));
  std::memcpy(values.data(), bytes.data() + begin, values.size() * sizeof(double));
  return values;
}

TEST(TrainLogStyle, XlaPrintsTheTutorialsLinesAndKeepsTheLosses) {
  const TempDir dir;
  const std::string shards = make_set(dir, 40, 20);
  const auto train = [&](const std::string& epochs, const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "train",       shards,  "--val",        shards, "--run-dir", dir / "run",
        "--model",     "lenet", "--channels",   "3",    "--size",    "16",
        "--devices",   "2",     "--batch-size", "5",    "--epochs",  epochs,
        "--log-steps", "2",     "--log-style",  "xla"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  };
  const ProcessResult result = train("2", {});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("Process 0 is using cpu:0\nProcess 1 is using cpu:1\n"),
            HasSubstr("EPOCH 2/2\n-------------------------------------------------------\n"
                      "- initialization | devices = 2, lr = 0."),
            ContainsRegex("\n-- batch 4 [|] cur_loss = [0-9.]+, avg_loss = [0-9.]+\n"),
            HasSubstr("- validation...\n"),
            ContainsRegex("- elapsed time [|] train = [0-9.]+ min, valid = [0-9.]+ min\n"),
            ContainsRegex("- average loss [|] train = [0-9.]+, valid = [0-9.]+\n"),
            ContainsRegex("Process 1 finished training. Train time was: [0-9.]+\n"),
            ContainsRegex("Process 1 finished evaluation. Evaluation time was: [0-9.]+\n"),
            ContainsRegex("Process 0 guessed [0-9]+ of 20 correctly for [0-9.]+ % accuracy.\n"),
            ContainsRegex("Process 1 guessed [0-9]+ of 20 correctly for [0-9.]+ % accuracy.\n"),
            Not(HasSubstr("Training Device="))));
  EXPECT_EQ(numbers_in(dir / "run/trn_losses.npy").size(), 2U);
  EXPECT_EQ(numbers_in(dir / "run/val_losses.npy").size(), 2U);
  const auto steps = numbers_in(dir / "run/step_losses.npy");
  EXPECT_EQ(steps.size(), 8U);
  const ProcessResult more = train("3", {"--resume", "auto"});
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_EQ(numbers_in(dir / "run/val_losses.npy").size(), 3U);
  const auto all = numbers_in(dir / "run/step_losses.npy");
  ASSERT_EQ(all.size(), 12U);
  EXPECT_TRUE(std::equal(steps.begin(), steps.end(), all.begin())) << "a resumed run continues";
}

// ---- Devices, repeatability, skipped steps ----

/// A run of LeNet on 48 synthetic pictures; every step's line on standard error.
ProcessResult train_fakes(const std::vector<std::string>& more, const char* lr = "0.05") {
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

std::vector<double> losses_of(const ProcessResult& result) {
  EXPECT_EQ(result.status, 0) << result.err;
  std::vector<double> values;
  for (const auto& event : json_lines(result.out))
    if (event["event"] == "step") values.push_back(event["loss"]);
  return values;
}

TEST(TrainDevices, ANumberInBracketsIsThatDeviceOnly) {
  const ProcessResult result = train_fakes({"--devices", "[5]"});
  EXPECT_EQ(losses_of(result).size(), 6U) << "one device takes all the batches";
  EXPECT_THAT(result.err, AllOf(HasSubstr("1 device x batch size 8 = 8 samples"),
                                HasSubstr("Training Device=cpu:5/0"), Not(HasSubstr("cpu:0/"))));
}

TEST(TrainDeterministic, TwoRunsAreEqualToTheLastBit) {
  const std::vector<std::string> more = {"--devices", "2",         "--deterministic",
                                         "--augment", "crop-flip", "--seed",
                                         "7",         "--threads", "3"};
  const auto first = losses_of(train_fakes(more));
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first, losses_of(train_fakes(more)));
}

TEST(TrainNonFinite, StepsAreSkippedOnRequest) {
  EXPECT_EQ(train_fakes({}, "1e30").status, 1);
  const ProcessResult skipped = train_fakes({"--on-non-finite", "skip"}, "1e30");
  EXPECT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_THAT(
      skipped.err,
      HasSubstr("warning: Epoch 1: 5 of 6 steps skipped, their loss or gradients were not finite"));
  EXPECT_THAT(skipped.out, HasSubstr(R"("skipped_steps":5,"skipped_step_samples":40)"));
  EXPECT_THAT(skipped.out, HasSubstr(R"("train_samples":8,)")) << "what was skipped is not counted";
}

/// A run of one step, whose update makes every later output infinite or NaN.
ProcessResult train_one_step(const TempDir& dir, const std::vector<std::string>& more) {
  const std::string shards = make_set(dir, 24, 24);
  std::vector<std::string> words = {"train",      shards,
                                    "--val",      shards,
                                    "--run-dir",  dir / "run",
                                    "--model",    "lenet",
                                    "--channels", "3",
                                    "--size",     "16",
                                    "--lr",       "1e30",
                                    "--momentum", "0",
                                    "--json",     "--warmup-steps",
                                    "0",          "--batch-size",
                                    "24",         "--target-accuracy",
                                    "99"};
  words.insert(words.end(), more.begin(), more.end());
  return millrace(words);
}

TEST(TrainNonFinite, AnEvaluationOfSuchOutputsEndsTheRunAndSavesNothing) {
  const TempDir dir;
  const ProcessResult result = train_one_step(dir, {});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("the evaluation of epoch 1: 24 of 24 samples have outputs that "
                                    "are not finite: lower the learning rate"));
  EXPECT_FALSE(std::filesystem::exists(dir / "run/checkpoints/best"));
  EXPECT_FALSE(std::filesystem::exists(dir / "run/checkpoints/last"));
}

TEST(TrainNonFinite, SuchAnEvaluationIsNeitherBestNorTheTarget) {
  const TempDir dir;
  const ProcessResult result = train_one_step(dir, {"--on-non-finite", "skip"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("no evaluation measured an accuracy for --target-accuracy 99"));
  EXPECT_THAT(result.out, HasSubstr(R"("val_loss":null,"val_top1":null,"val_top5":null)"));
  EXPECT_THAT(result.out, HasSubstr(R"("best":null)"));
  EXPECT_FALSE(std::filesystem::exists(dir / "run/checkpoints/best"));
  ASSERT_TRUE(std::filesystem::exists(dir / "run/checkpoints/last"));
  const ProcessResult evaluated =
      millrace({"eval", "--checkpoint", dir / "run/checkpoints/last", dir / "set-000000.tar"});
  EXPECT_EQ(evaluated.status, 1) << evaluated.out;
  EXPECT_THAT(evaluated.err, HasSubstr("24 of 24 samples have outputs that are not finite"));
  EXPECT_EQ(evaluated.out, "");
  const ProcessResult predicted = millrace({"predict", "--checkpoint", dir / "run/checkpoints/last",
                                            dir / "set-000000.tar", "-o", dir / "rows.csv"});
  EXPECT_EQ(predicted.status, 1) << predicted.out;
  EXPECT_THAT(predicted.err, HasSubstr("the model's output is not finite"));
  EXPECT_FALSE(std::filesystem::exists(dir / "rows.csv"));
}

}  // namespace
}  // namespace millrace::testing
