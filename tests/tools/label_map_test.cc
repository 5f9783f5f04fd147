// Class names beside the shards: a label is the same class in all sets that are used together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LabelMaps : public ::testing::Test {
 protected:
  LabelMaps() {
    const auto made = millrace({"create", dir_ / "some-%06d.tar", "--synthetic", "classes",
                                "--count", "2", "--size", "28", "--format", "jpg", "--no-index"});
    EXPECT_EQ(made.status, 0) << made.err;
    picture_ = millrace({"cat", dir_ / "some-000000.tar", "00000000.jpg"}).out;
  }

  /// Shards NAME-000000.tar of four pictures of each class.
  ProcessResult create(const std::string& name, const std::vector<std::string>& classes,
                       const std::vector<std::string>& more = {}) const {
    for (const std::string& one : classes) {
      fs::create_directories(dir_ / (name + "/" + one));
      for (int i = 0; i < 4; ++i)
        write_file(dir_ / (name + "/" + one + "/" + std::to_string(i) + ".jpg"), picture_);
    }
    std::vector<std::string> words = {"create", dir_ / (name + "-%06d.tar"), "--from-folder",
                                      dir_ / name};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  }
  std::string shard(const std::string& name) const { return dir_ / (name + "-000000.tar"); }
  std::string labels(const std::string& name) const {
    std::string labels;
    for (const wds::Sample& sample : read_samples(shard(name)))
      labels += sample.find("cls")->data.text();
    return labels;
  }
  ProcessResult train(std::vector<std::string> words) const {
    words.insert(words.begin(), "train");
    words.insert(words.end(), {"--model", "lenet", "--channels", "3", "--size", "28",
                               "--batch-size", "4", "--run-dir", dir_ / "run"});
    return millrace(words);
  }

  TempDir dir_;
  std::string picture_;
};

TEST_F(LabelMaps, AreReadOnceInARun) {
  ASSERT_EQ(create("train", {"ant", "bee"}).status, 0);
  const ScriptedHttpServer server([this](const ScriptedRequest& request) -> ScriptedReply {
    const std::string path = dir_ / request.target.substr(1);
    if (!fs::exists(path)) return {http_reply(404, "", "")};
    return {http_serve(request, read_file(path))};
  });
  const std::string spec = server.url("/train-000000.tar");
  const auto trained = train({spec, "--val", spec, "--epochs", "1"});
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("2 classes, by "));
  EXPECT_EQ(std::ranges::count(server.requests(), "/train-classes.txt", &ScriptedRequest::target),
            1);
}

TEST_F(LabelMaps, ThatDifferAreRefused) {
  ASSERT_EQ(create("train", {"ant", "bee", "cat"}).status, 0);
  ASSERT_EQ(create("val", {"ant", "cat"}).status, 0);
  const auto differ =
      AllOf(HasSubstr("cat is label 2 in "), HasSubstr("train-classes.txt, and 1 in "),
            HasSubstr("val-classes.txt"), HasSubstr("--label-map"));
  const auto trained = train({shard("train"), "--val", shard("val")});
  EXPECT_EQ(trained.status, 2);
  EXPECT_THAT(trained.err, differ);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"reshard", shard("train") + "::" + shard("val"),
                                 dir_ / "both-%06d.tar"},
        std::vector<std::string>{"stats", shard("train") + "::" + shard("val")}}) {
    const auto refused = millrace(words);
    EXPECT_EQ(refused.status, 2) << words[0];
    EXPECT_THAT(refused.err, differ) << words[0];
  }
  const auto mixed = train({"0.5:" + shard("train"), "0.5:" + shard("val")});
  EXPECT_EQ(mixed.status, 2);
  EXPECT_THAT(mixed.err, differ);
}

TEST_F(LabelMaps, OfTheModelAreThoseOfWhatItIsEvaluatedOn) {
  ASSERT_EQ(create("train", {"ant", "bee", "cat"}).status, 0);
  ASSERT_EQ(create("other", {"ant", "cat"}).status, 0);
  ASSERT_EQ(train({shard("train")}).status, 0);
  EXPECT_EQ(millrace({"eval", shard("train"), "--checkpoint", dir_ / "run"}).status, 0);
  const auto refused = millrace({"eval", shard("other"), "--checkpoint", dir_ / "run"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("cat is label 2 in "));
}

TEST_F(LabelMaps, SayThatALabelIsOfTwoClasses) {
  ASSERT_EQ(create("train", {"ant", "bee"}).status, 0);
  ASSERT_EQ(create("val", {"cow", "dog"}).status, 0);
  const auto refused = train({shard("train"), "--val", shard("val")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("label 0 is ant in "));
}

TEST_F(LabelMaps, WithAClassTwiceAreRefused) {
  ASSERT_EQ(create("train", {"ant", "bee"}).status, 0);
  write_file(dir_ / "train-classes.txt", "crane\ncrane\n");
  const auto twice = AllOf(HasSubstr("the class crane is there twice, as 0 and 1"),
                           HasSubstr("train-classes.txt"));
  for (const auto& refused : {train({shard("train")}), millrace({"stats", shard("train")})}) {
    EXPECT_EQ(refused.status, 2) << refused.err;
    EXPECT_THAT(refused.err, twice);
  }
}

TEST_F(LabelMaps, OfTheHeadThatARunBeginsWithAreThoseOfTheRun) {
  ASSERT_EQ(create("train", {"ant", "bee"}).status, 0);
  ASSERT_EQ(train({shard("train")}).status, 0);
  fs::rename(dir_ / "run", dir_ / "before");
  ASSERT_EQ(create("other", {"bee", "cat"}).status, 0);
  const auto refused = train({shard("other"), "--init", dir_ / "before"});
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("label 0 is ant there, and bee here"), HasSubstr("--replace-head")));
  EXPECT_EQ(train({shard("other"), "--init", dir_ / "before", "--replace-head"}).status, 0);
  fs::remove_all(dir_ / "run");
  EXPECT_EQ(train({shard("train"), "--init", dir_ / "before"}).status, 0);
}

TEST_F(LabelMaps, AndLabelsOfAnEvaluationFitBeforeTheFirstStep) {
  ASSERT_EQ(create("train", {"ant", "bee"}).status, 0);
  ASSERT_EQ(create("val", {"ant", "bee", "cat"}, {"--no-index"}).status, 0);
  ASSERT_EQ(create("indexed", {"ant", "bee", "cat"}).status, 0);
  for (const char* set : {"train", "val", "indexed"})
    fs::remove(dir_ / (std::string(set) + "-classes.txt"));
  for (const char* set : {"val", "indexed"}) {
    const auto refused = train({shard("train"), "--val", shard(set)});
    EXPECT_EQ(refused.status, 2) << refused.err;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("--val has label 2 ("), HasSubstr(", key cat/"),
                                   HasSubstr("the model 2 outputs: give --classes 3")));
    EXPECT_THAT(refused.err, ::testing::Not(HasSubstr("Epoch 1"))) << "after an epoch of training";
  }
  EXPECT_EQ(train({shard("train"), "--val", shard("val"), "--classes", "3"}).status, 0);
}

TEST_F(LabelMaps, OfAnotherSetNumberTheClasses) {
  ASSERT_EQ(create("train", {"ant", "bee", "cat"}).status, 0);
  const std::string map = dir_ / "train-classes.txt";
  const auto created = create("val", {"ant", "cat"}, {"--label-map", map});
  ASSERT_EQ(created.status, 0) << created.err;
  EXPECT_EQ(labels("val"), "00002222");
  EXPECT_EQ(read_file(dir_ / "val-classes.txt"), read_file(map));
  EXPECT_EQ(train({shard("train"), "--val", shard("val")}).status, 0);
  const auto unknown = create("more", {"ant", "dog"}, {"--label-map", map});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("there is no class dog"), HasSubstr(map)));
}

// A set's manifest and label map have its name without the number.
TEST_F(LabelMaps, OfAnotherPatternsSetAreNotReplaced) {
  ASSERT_EQ(create("a", {"ant", "bee"}).status, 0);
  const std::string manifest = read_file(dir_ / "a-manifest.json");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--force"}}) {
    std::vector<std::string> words = {"reshard", shard("a"), dir_ / "a-%05d.tar"};
    words.insert(words.end(), more.begin(), more.end());
    const auto refused = millrace(words);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("a-000000.tar is of another set, which would lose its "
                                       "a-manifest.json"));
  }
  EXPECT_EQ(read_file(dir_ / "a-manifest.json"), manifest);
  const auto folds = millrace({"create", dir_ / "p{fold}%06d.tar", "--synthetic", "classes",
                               "--count", "8", "--folds", "2"});
  EXPECT_EQ(folds.status, 2);
  EXPECT_THAT(folds.err, HasSubstr("all folds would have the manifest"));
}

}  // namespace
}  // namespace millrace::testing
