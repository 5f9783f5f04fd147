// What evaluations leave beside their measures: eval --details and --report, and the parts of a
// run's page. tests/tools/evaluation_oracle.py recomputes the numbers from `predict`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/pages.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EvaluationPage : public ::testing::Test {
 protected:
  void train(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train",        shards_, "--val",     shards_,
                                      "--batch-size", "8",     "--run-dir", dir_ / "run"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  nlohmann::json read_json(const std::string& name) const {
    return nlohmann::json::parse(read_file(dir_ / name));
  }
  /// With --details and --report.
  nlohmann::json eval(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"eval",      "--checkpoint",   dir_ / "run", shards_,
                                      "--details", dir_ / "d.json",  "--report",   dir_ / "d.html",
                                      "--force",   "--batch-size=8", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 0) << result.err;
    measures_ = json_lines(result.out).back();
    return read_json("d.json");
  }
  std::string text_of_page(const std::string& name) const {
    return text_of(parse_page(dir_ / name));
  }

  TempDir dir_;
  std::string shards_;
  mutable nlohmann::json measures_;
};

/// Each sample's key and class.
std::string classes_of(const TempDir& dir) {
  std::string lines;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    if (entry.path().extension() != ".tar") continue;
    for (const wds::Sample& sample : read_samples(entry.path().string()))
      lines += nlohmann::json{{"key", sample.key},
                              {"class", std::stoi(std::string(sample.find("cls")->data.text()))}}
                   .dump() +
               "\n";
  }
  return lines;
}

TEST_F(EvaluationPage, AgreesWithPredict) {
  shards_ = make_set(dir_, 90, 30);
  train({"--model", "lenet", "--epochs", "2", "--lr", "0.003"});
  const auto details = eval();
  EXPECT_EQ(details["samples"], 90);
  EXPECT_DOUBLE_EQ(details["right"].get<double>() / 90, measures_["val_top1"].get<double>());
  const ProcessResult predicted =
      millrace({"predict", "--checkpoint", dir_ / "run", shards_, "--batch-size", "8", "--top",
                std::to_string(details["classes"].get<int>()), "--json", "-o", dir_ / "p.jsonl"});
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  write_file(dir_ / "classes.jsonl", classes_of(dir_));
  const ProcessResult oracle =
      run_process({"/usr/bin/python3", "tests/tools/evaluation_oracle.py", dir_ / "d.json",
                   dir_ / "p.jsonl", dir_ / "classes.jsonl"});
  EXPECT_EQ(oracle.status, 0) << oracle.err;
}

/// A model's last bits may differ by a sample's place in the batch; what is counted does not.
void expect_same(const nlohmann::json& one, const nlohmann::json& other) {
  for (const char* name : {"samples", "right", "counted", "confusion", "by_class"})
    EXPECT_EQ(one[name], other[name]) << name;
  EXPECT_NEAR(one["calibration"]["error"], other["calibration"]["error"], 1e-5);
  ASSERT_EQ(one["worst"].size(), other["worst"].size());
  for (std::size_t i = 0; i < one["worst"].size(); ++i)
    EXPECT_NEAR(one["worst"][i]["loss"], other["worst"][i]["loss"], 1e-5);
}

TEST_F(EvaluationPage, IsTheSameOnTwoDevices) {
  shards_ = make_set(dir_, 90, 30);
  train({"--model", "lenet", "--epochs", "1"});
  const auto one = eval();
  expect_same(one, eval({"--devices", "2"}));
  expect_same(one, eval({"--devices", "3", "--streams", "3"}));
}

TEST_F(EvaluationPage, OfARunShowsWhatCatFinds) {
  shards_ = make_set(dir_, 60, 30);
  train({"--model", "lenet", "--epochs", "1", "--devices", "2"});
  const auto details = read_json("run/evaluation-best.json");
  EXPECT_EQ(details["epoch"], 1);
  EXPECT_EQ(details["samples"], 60);
  const auto page = parse_page(dir_ / "run/report.html");
  EXPECT_THAT(text_of(page), AllOf(HasSubstr("Confusion"), HasSubstr("Reliability"),
                                   HasSubstr("Worst losses"), HasSubstr("Most confident mistakes"),
                                   HasSubstr("As the model sees"), Not(HasSubstr("not drawn"))));
  const auto& worst = details["worst"].at(0);
  EXPECT_THAT(text_of(page), HasSubstr("millrace cat " + worst["shard"].get<std::string>() + " " +
                                       worst["member"].get<std::string>()));
  const ProcessResult cat = millrace({"cat", worst["shard"], worst["member"]});
  EXPECT_EQ(cat.status, 0) << cat.err;
  EXPECT_THAT(cat.out, HasSubstr("PNG"));
}

TEST_F(EvaluationPage, LeavesThePlaceOfAPictureThatIsGone) {
  shards_ = make_set(dir_, 30, 30);
  train({"--model", "lenet", "--epochs", "1"});
  std::filesystem::remove(dir_ / "set-000000.tar");
  ASSERT_EQ(millrace({"report", dir_ / "run", "-o", dir_ / "page.html"}).status, 0);
  EXPECT_THAT(text_of_page("page.html"), AllOf(HasSubstr("not drawn"), HasSubstr("millrace cat")));
}

TEST_F(EvaluationPage, HasMasksBesidePredictions) {
  shards_ = make_scene_set(dir_, 12, 32);
  train({"--model", "unet(width=8)", "--task", "mask-depth", "--size", "32", "--epochs", "1"});
  const auto details = eval();
  EXPECT_EQ(details["kind"], "masks");
  EXPECT_EQ(details["counted"], 12 * 32 * 32);
  EXPECT_EQ(details["worst"].size(), 12U);
  const auto page = parse_page(dir_ / "d.html");
  EXPECT_THAT(text_of(page), HasSubstr("of its pixels are right"));
  EXPECT_THAT(page["alts"].dump(), HasSubstr("predicted mask of"));
}

TEST_F(EvaluationPage, CountsEachLabel) {
  shards_ = make_labelled_set(dir_, 32);
  train({"--model", "lenet", "--task", "multilabel", "--classes", "3", "--epochs", "2"});
  const auto details = eval();
  EXPECT_EQ(details["kind"], "labels");
  EXPECT_EQ(details["counted"], 32 * 3);
  std::int64_t holds = 0;
  for (const wds::Sample& sample : read_samples(dir_ / "labelled-000000.tar"))
    holds += nlohmann::json::parse(sample.find("json")->data.text())["labels"][0].get<int>();
  EXPECT_GE(details["by_class"][0][1], holds);
  EXPECT_THAT(text_of_page("d.html"), HasSubstr("Each label"));
}

TEST_F(EvaluationPage, TakesAStrangersFileForWhatItIs) {
  const std::string evil = R"(</style><script>alert(1)</script>\"'&)";
  write_file(dir_ / "run/metrics.jsonl", "{}\n");
  write_file(
      dir_ / "run/evaluation.json",
      R"({"kind":"classes","classes":2,"samples":1e300,"names":[")" + evil +
          R"(",5],"confusion":[[1,2],"x",[-1,5,{}]],"by_class":[[1],[0,1,1,1],[1e300,1,1,1]],)"
          R"("confused":[[0,1,5],7],"calibration":{"error":0.5,"bins":[[1,1,1]]},"worst":[)"
          R"({"key":")" +
          evil + R"(","shard":"pipe:touch )" + (dir_ / "touched") +
          R"(","offset":0,"member":"a.png","label":0},7,)"
          R"({"key":"k","shard":"/dev/zero","offset":0,"member":"k.png","label":-5,"wanted":"\"><b>"},)"
          R"({"key":"k","shard":"http://127.0.0.1:1/x.tar","offset":0,"member":"k.png"}]})");
  write_file(dir_ / "run/first-batch.json",
             R"({"pictures":[{"key":5,"jpeg":"/9j/\" onload=x"},7]})");
  const ProcessResult result = millrace({"report", dir_ / "run", "-o", dir_ / "page.html"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(text_of_page("page.html"), AllOf(HasSubstr("<script>alert(1)</script>"),
                                               HasSubstr("is no file"), HasSubstr("--fetch")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "touched"));
}

TEST_F(EvaluationPage, FitsATelephoneAndAWideWindow) {
  if (!std::filesystem::exists(kBrowser)) GTEST_SKIP() << "no " << kBrowser;
  shards_ = make_set(dir_, 60, 30);
  train({"--model", "lenet", "--epochs", "1"});
  expect_fits_windows(dir_, read_file(dir_ / "run/report.html"));
}

}  // namespace
}  // namespace millrace::testing
