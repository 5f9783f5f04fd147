// predict: a checkpoint's predictions for samples, in their order, without labels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "decode/class_mask.h"
#include "decode/encode.h"
#include "decode/image.h"
#include "io/opener.h"
#include "tests/tools/support.h"
#include "wds/shard_reader.h"
#include "wds/shard_writer.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A model of ten classes, trained for an epoch, and the shards it was trained on.
class Predict : public ::testing::Test {
 protected:
  void SetUp() override {
    shards_ = make_set(dir_, 50, 20);
    const ProcessResult trained = millrace(
        {"train", "--model", "lenet", "--channels", "3", "--size", "16", "--train", shards_,
         "--epochs", "3", "--batch-size", "8", "--lr", "0.05", "--run-dir", dir_ / "run"});
    ASSERT_EQ(trained.status, 0) << trained.err;
  }

  ProcessResult predict(const std::string& spec, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"predict", "--checkpoint", dir_ / "run/checkpoints/last",
                                      spec,      "--precision",  "fp32"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  }

  /// Only the first shard's images, the first one with a key that CSV must quote.
  std::string unlabelled() const {
    wds::ShardWriter writer({.pattern = dir_ / "plain-%06d.tar"});
    std::string key = "a \"b\", c";
    for (const wds::Sample& sample : read_samples(dir_ / "set-000000.tar")) {
      const wds::Field* image = sample.find("png");
      writer.write({.key = std::exchange(key, sample.key), .fields = {{"png", image->data}}});
    }
    writer.finish();
    return dir_ / "plain-000000.tar";
  }

  TempDir dir_;
  std::string shards_;
};

TEST_F(Predict, RowsKeepTheShardsOrderAndAgreeWithEval) {
  const ProcessResult one = predict(shards_, {"--batch-size", "8"});
  ASSERT_EQ(one.status, 0) << one.err;
  const auto rows = lines_of(one.out);
  ASSERT_EQ(rows.size(), 51U);
  EXPECT_EQ(rows.front(), "key,class,probability");
  const auto listed = list_samples(shards_);
  std::map<std::string, int> labels;
  for (int shard = 0; shard < 3; ++shard) {
    for (const wds::Sample& sample :
         read_samples(dir_ / ("set-00000" + std::to_string(shard) + ".tar")))
      labels[sample.key] = std::stoi(std::string(sample.find("cls")->data.text()));
  }
  int right = 0;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const std::string key = listed[i]["key"];
    EXPECT_THAT(rows[i + 1], StartsWith(key + ","));
    right += rows[i + 1].starts_with(key + "," + std::to_string(labels.at(key)) + ",") ? 1 : 0;
  }
  const ProcessResult scored =
      millrace({"eval", shards_, "--checkpoint", dir_ / "run/checkpoints/last", "--precision",
                "fp32", "--json"});
  EXPECT_NEAR(json_lines(scored.out).at(0)["val_top1"].get<double>(), right / 50.0, 1e-9);
  // A product's last bit may depend on the threads of a device, of which three devices have fewer.
  const auto others = lines_of(predict(shards_, {"--batch-size", "8", "--devices", "3"}).out);
  ASSERT_EQ(others.size(), rows.size());
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const std::size_t cut = rows[i].rfind(',') + 1;
    EXPECT_EQ(others[i].substr(0, cut), rows[i].substr(0, cut));
    EXPECT_NEAR(std::stod(others[i].substr(cut)), std::stod(rows[i].substr(cut)), 2e-6);
  }
}

TEST_F(Predict, LabelsAreNotNeededAndKeysAreQuoted) {
  const std::string shard = unlabelled();
  ASSERT_EQ(predict(shard, {"-o", dir_ / "new/rows.csv"}).status, 0);
  const auto rows = lines_of(read_file(dir_ / "new/rows.csv"));
  ASSERT_EQ(rows.size(), 21U);
  EXPECT_THAT(rows[1], StartsWith(R"("a ""b"", c",)"));
  const ProcessResult again = predict(shard, {"-o", dir_ / "new/rows.csv"});
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("--force"));
  EXPECT_EQ(predict(shard, {"-o", dir_ / "new/rows.csv", "--force"}).status, 0);
}

TEST_F(Predict, TheLikeliestClassesComeWithTheirNames) {
  write_file(dir_ / "names", "disc\nsquare\n\"odd, one\"\nd\ne\nf\ng\nh\ni\nj\n");
  const ProcessResult result =
      predict(unlabelled(), {"--json", "--top", "99", "--names", dir_ / "names"});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::vector<std::string> names = {"disc", "square", "\"odd, one\"", "d", "e", "f", "g", "h",
                                          "i",    "j"};
  for (const auto& row : json_lines(result.out)) {
    double sum = 0;
    double before = 1;
    std::set<int> classes;
    for (const auto& each : row["top"]) {
      const auto number = each["class"].get<std::size_t>();
      EXPECT_EQ(each["name"], names.at(number));
      EXPECT_LE(each["probability"].get<double>(), before);
      before = each["probability"];
      sum += before;
      classes.insert(static_cast<int>(number));
    }
    EXPECT_NEAR(sum, 1.0, 1e-6);
    EXPECT_EQ(classes.size(), row["top"].size()) << "each class once";
    EXPECT_EQ(row["class"], row["top"][0]["class"]);
  }
}

TEST_F(Predict, ThereAreAsManyNamesAsClasses) {
  const std::string shard = unlabelled();
  for (const char* names : {"disc\nsquare\n", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n"}) {
    write_file(dir_ / "names", names);
    const ProcessResult refused = predict(shard, {"--names", dir_ / "names"});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr(" names for 10 classes"));
    EXPECT_EQ(refused.out, "");
  }
}

TEST_F(Predict, ADamagedSampleIsNamedOrSkipped) {
  const std::string shard = unlabelled();
  const std::uint64_t offset = read_samples(shard)[3].fields[0].offset;
  std::string bytes = read_file(shard);
  bytes.replace(offset, 64, std::string(64, '\0'));
  write_file(shard, bytes);
  const ProcessResult failed = predict(shard, {"--no-index", "-o", dir_ / "rows.csv"});
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, HasSubstr("plain-000000.tar"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "rows.csv"));
  const ProcessResult skipped = predict(shard, {"--no-index", "--on-fault", "skip"});
  ASSERT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_EQ(lines_of(skipped.out).size(), 20U) << "a header and 19 of 20 samples";
}

TEST_F(Predict, WhatCannotBeIsAUsageError) {
  EXPECT_EQ(predict(shards_, {"--shards", dir_ / "out-%06d.tar"}).status, 2);
  EXPECT_EQ(predict(shards_, {"--shards", dir_ / "out-%06d.tar", "-o", dir_ / "x"}).status, 2);
  EXPECT_EQ(millrace({"predict", shards_, "--checkpoint", dir_ / "nowhere"}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out-000000.tar"));
}

TEST_F(Predict, PartsOfAnotherNumberOfProcessesAreNotLeftBesideItsOwn) {
  for (const char* name : {"other-0of2.csv", "rows-x.csv", "rows-0of2.csv.gz", "rows-old.csv"})
    testing::write_file(dir_ / name, "");
  EXPECT_EQ(predict(shards_, {"-o", dir_ / "rows.csv"}).status, 0);
  testing::write_file(dir_ / "rows-1of2.csv", "");
  const ProcessResult refused = predict(shards_, {"-o", dir_ / "rows.csv", "--force"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("rows-1of2.csv is of a prediction by 2 processes"));
}

/// A run's last validation, evaluated again without an option.
TEST(RunsOptions, AreThoseOfItsEvaluationAndPredictions) {
  const TempDir dir;
  const std::string shards = make_set(dir, 50, 20);
  const std::string run = dir / "run";
  const ProcessResult trained = millrace(
      {"train", "--model", "lenet", "--size", "16", shards, "--val", shards, "--epochs", "1",
       "--lr", "0.05", "--precision", "fp32", "--views", "mirror", "--run-dir", run, "--json"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  double val_loss = 0;
  for (const auto& event : json_lines(trained.out))
    if (event["event"] == "epoch") val_loss = event["val_loss"];
  const std::vector<std::string> eval = {"eval", shards, "--checkpoint", run, "--json"};
  const auto loss = [&](const std::vector<std::string>& more, const std::string& said) {
    std::vector<std::string> words = eval;
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    EXPECT_THAT(result.err, HasSubstr(said));
    return json_lines(result.out).at(0)["val_loss"].get<double>();
  };
  EXPECT_NEAR(loss({}, "--views mirror, as the run has it"), val_loss, 1e-6);
  EXPECT_NEAR(loss({"--precision", "32"}, "--views"), val_loss, 1e-6);
  EXPECT_NE(loss({"--precision", "bf16"}, "--views"), val_loss);
  EXPECT_NE(loss({"--views", "one"}, "--precision fp32, as"), val_loss);
  const std::vector<std::string> predict = {"predict", shards, "--checkpoint", run};
  const ProcessResult rows = millrace(predict);
  EXPECT_THAT(rows.err, HasSubstr("--precision fp32, as the run has it"));
  auto exact = predict;
  exact.insert(exact.end(), {"--precision", "fp32"});
  EXPECT_EQ(rows.out, millrace(exact).out);
}

TEST(PredictMultilabel, GivesEachLabelsProbability) {
  const TempDir dir;
  const std::string shards = make_labelled_set(dir, 20);
  const ProcessResult trained =
      millrace({"train", "--model", "lenet", "--task", "multilabel", "--channels", "3", "--size",
                "16", "--train", shards, "--batch-size", "8", "--run-dir", dir / "run"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const std::vector<std::string> words = {"predict", shards, "--checkpoint",
                                          dir / "run/checkpoints/last"};
  const ProcessResult result = millrace(words);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(lines_of(result.out).front(), "key,label0,label1,label2");
  auto json = words;
  json.push_back("--json");
  for (const auto& row : json_lines(millrace(json).out)) {
    ASSERT_EQ(row["probabilities"].size(), 3U);
    for (const double value : row["probabilities"]) EXPECT_TRUE(value > 0.0 && value < 1.0);
  }
}

TEST(PredictMaskDepth, WritesShardsThatTrainingReads) {
  const TempDir dir;
  const std::string scenes = make_scene_set(dir, 6, 32, 255);
  const std::vector<std::string> model = {
      "--model", "unet(width=16)", "--size", "32",   "--mask-value",
      "255",     "--batch-size",   "2",      "--lr", "0.01"};
  auto train = model;
  train.insert(train.begin(), "train");
  train.insert(train.end(), {"--train", scenes, "--run-dir", dir / "run"});
  ASSERT_EQ(millrace(train).status, 0);
  const std::vector<std::string> words = {
      "predict", scenes, "--checkpoint", dir / "run/checkpoints/last", "--batch-size", "2"};
  const ProcessResult refused = millrace(words);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--shards"));
  auto shards = words;
  shards.insert(shards.end(), {"--shards", dir / "out/pair-%06d.tar"});
  const ProcessResult result = millrace(shards);
  ASSERT_EQ(result.status, 0) << result.err;
  std::vector<std::string> keys;
  for (const wds::Sample& sample : read_samples(dir / "out/pair-000000.tar")) {
    keys.push_back(sample.key);
    const decode::Image mask = decode::decode_image(sample.find("mask.png")->data);
    EXPECT_EQ(mask.height, 32);
    for (const std::byte pixel : mask.pixels.span())
      EXPECT_TRUE(pixel == std::byte{0} || pixel == std::byte{255});
    EXPECT_EQ(decode::decode_image(sample.find("depth.png")->data).channels, 1);
  }
  EXPECT_THAT(keys, ElementsAre("000000", "000001", "000002", "000003", "000004", "000005"));
}

/// Trains on two scenes whose depth is `level`, but for a first row of 0.
class TrainDepth : public ::testing::Test {
 protected:
  TrainDepth() { make_scene_set(dir_, 2, 32, 255); }

  ProcessResult trained(std::int64_t level, const std::string& task,
                        const std::string& steps = "1") {
    std::filesystem::remove(shard());
    wds::ShardWriter writer({.pattern = dir_ / "deep-%06d.tar"});
    decode::ClassImage depth{.height = 32, .width = 32, .labels = std::vector(1024, level)};
    std::fill_n(depth.labels.begin(), 32, 0);
    for (const wds::Sample& sample : read_samples(dir_ / "scene-000000.tar"))
      writer.write({.key = sample.key,
                    .fields = {{"png", sample.find("png")->data},
                               {"depth.png", decode::encode_mask_png(depth, {})}}});
    writer.finish();
    return millrace({"train", "--model", "unet(width=2)", "--task", task, "--size", "32", "--train",
                     shard(), "--batch-size", "2", "--epochs", steps, "--optimizer",
                     "adam(lr=0.05)", "--schedule", "constant", "--run-dir", dir_ / "run"});
  }
  std::string shard() const { return dir_ / "deep-000000.tar"; }

  TempDir dir_;
};

TEST_F(TrainDepth, LevelsOf16BitsWithoutOneThatIsOneAreWarnedOf) {
  EXPECT_THAT(trained(1200, "depth").err, HasSubstr("the first sample's up to 1200"));
  std::filesystem::remove_all(dir_ / "run");
  EXPECT_THAT(trained(1200, "depth(depth_one=2400)").err, Not(HasSubstr("16 bits")));
  std::filesystem::remove_all(dir_ / "run");
  EXPECT_THAT(trained(200, "depth").err, Not(HasSubstr("16 bits")));
}

TEST_F(TrainDepth, PredictionsAreInTheLevelsOfTheSet) {
  const ProcessResult result = trained(1200, "depth(depth_one=2400, depth_none=0)", "60");
  ASSERT_EQ(result.status, 0) << result.err;
  const ProcessResult predicted = millrace(
      {"predict", "--checkpoint", dir_ / "run", shard(), "--shards", dir_ / "out-%06d.tar"});
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  for (const wds::Sample& sample : read_samples(dir_ / "out-000000.tar")) {
    const auto levels =
        decode::decode_classes(sample.find("depth.png")->data, {.ignore = -1}).labels;
    ASSERT_EQ(levels.size(), 1024U);
    const double mean = std::accumulate(levels.begin(), levels.end(), 0.0) / 1024;
    EXPECT_NEAR(mean, 1200, 120) << "pixels of level 0 have no depth to be learnt";
    EXPECT_EQ(std::ranges::count(levels, 0), 0);
  }
}

TEST(PredictLabels, HaveTheNamesOfTheTablesColumns) {
  const TempDir dir;
  std::string table = "file,\"left, lower\",right\n";
  for (int i = 0; i < 8; ++i) {
    std::string picture = "P6\n16 16\n255\n";
    for (int at = 0; at < 768; ++at) picture += static_cast<char>(i * 31 + at * 7);
    write_file(dir / ("p" + std::to_string(i) + ".ppm"), picture);
    table += "p" + std::to_string(i) + "," + std::to_string(i % 2) + ",1\n";
  }
  write_file(dir / "t.csv", table);
  const ProcessResult made = millrace({"create", dir / "l-%06d.tar", "--from-csv", dir / "t.csv",
                                       "--path", "{file}.ppm", "--labels", "left, lower", "right"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(read_file(dir / "l-classes.txt"), "left, lower\nright\n");
  const ProcessResult trained =
      millrace({"train", dir / "l-000000.tar", "--model", "lenet", "--channels", "3", "--size",
                "16", "--task", "multilabel", "--batch-size", "4", "--run-dir", dir / "run"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const ProcessResult rows =
      millrace({"predict", "--checkpoint", dir / "run", dir / "l-000000.tar"});
  ASSERT_EQ(rows.status, 0) << rows.err;
  EXPECT_EQ(lines_of(rows.out).front(), "key,\"left, lower\",right");
}

}  // namespace
}  // namespace millrace::testing
