// Every recipe runs unchanged, except for sizes that would take too long in a test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <stdexcept>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string recipe(const std::string& name) { return MILLRACE_RECIPES "/" + name + ".toml"; }

class Recipe : public ::testing::Test {
 protected:
  /// One step of the recipe.
  ProcessResult try_out(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train",       "--config", recipe(name), "--fast-dev-run",
                                      "--log-steps", "1",        "--json"};
    words.insert(words.end(), more.begin(), more.end());
    ProcessResult result = millrace(words, {.folder = dir_.path().string()});
    if (result.status != 0) throw std::runtime_error(result.err);  // ends the test
    EXPECT_EQ(json_lines(result.out).back()["epochs"], 1) << result.err;
    return result;
  }

  TempDir dir_;
};

TEST_F(Recipe, PeResnet34KeepsAFoldForEvaluation) {
  for (int fold = 0; fold < 5; ++fold) {
    const std::string name = "fold" + std::to_string(fold);
    std::filesystem::create_directories(dir_ / name);
    make_labelled_set(dir_, 4, name + "/x");
  }
  const ProcessResult result =
      try_out("pe-resnet34", {"--train", dir_ / "fold{fold}", "--fold", "2", "--classes", "3",
                              "--size", "32", "--batch-size", "4"});
  EXPECT_THAT(result.err, AllOf(HasSubstr("resnet34"), HasSubstr("3 labels"), HasSubstr("auroc=")));
}

TEST_F(Recipe, UnetMaskDepthMeasuresBothHeads) {
  const std::string scenes = make_scene_set(dir_, 4, 32);
  const ProcessResult result = try_out(
      "unet-mask-depth", {"--train", scenes, "--val", scenes, "--size", "32", "--batch-size", "2"});
  EXPECT_THAT(result.err, AllOf(HasSubstr("iou="), HasSubstr("rmse=")));
}

TEST_F(Recipe, CamvidUnetTellsEachClass) {
  const std::string streets = dir_ / "street-000000.tar";
  millrace({"create", dir_ / "street-%06d.tar", "--synthetic", "segments", "--count", "4", "--size",
            "36x48"});
  const ProcessResult result = try_out("camvid-unet", {"--train", streets, "--val", streets,
                                                       "--size", "36x48", "--batch-size", "2"});
  EXPECT_THAT(result.err, AllOf(HasSubstr("11 classes per pixel"), HasSubstr("padded to 64x64"),
                                HasSubstr("IoU by class: ")));
}

TEST_F(Recipe, Cifar10WarmsUp) {
  const std::string shards = dir_ / "c-{000000..000001}.tar";
  millrace({"create", dir_ / "c-%06d.tar", "--synthetic", "classes", "--count", "8", "--size", "32",
            "--maxcount", "4"});
  for (const std::string name : {"cifar10-resnet18", "cifar10-resnet50"}) {
    const ProcessResult result =
        try_out(name, {"--train", shards, "--val", shards, "--batch-size", "2"});
    EXPECT_EQ(json_lines(result.out).front()["lr"], 0.0) << name;
  }
}

TEST_F(Recipe, Airbench94HasItsRatesAndASmallerModelTrains) {
  const std::string shards = dir_ / "c-{000000..000001}.tar";
  millrace({"create", dir_ / "c-%06d.tar", "--synthetic", "classes", "--count", "8", "--size", "32",
            "--maxcount", "4"});
  const ProcessResult result =
      try_out("airbench94",
              {"--train", shards, "--val", shards, "--batch-size", "4/all", "--views",
               "mirror-shift", "--model", "airbench94(channels=[4, 8, 8], whitening_samples=6)"});
  EXPECT_NEAR(json_lines(result.out).front()["lr"].get<double>(), 0.24, 1e-7);
  EXPECT_THAT(result.err, AllOf(HasSubstr("muon lr 0.24 linear"), HasSubstr("Test Samples=")));
}

TEST_F(Recipe, Cifar10SimClrComparesViewsOverItsDevices) {
  const std::string shards = dir_ / "c-{000000..000001}.tar";
  millrace({"create", dir_ / "c-%06d.tar", "--synthetic", "classes", "--count", "16", "--size",
            "32", "--maxcount", "8"});
  const ProcessResult result =
      try_out("cifar10-simclr", {"--train", shards, "--val", shards, "--batch-size", "8/all",
                                 "--model", "airbench94(channels=[4, 8, 8])"});
  EXPECT_THAT(result.err, AllOf(HasSubstr("128 features"), HasSubstr("Test Samples=")));
}

TEST_F(Recipe, ClipFindsCaptionsAndPicturesByEachOther) {
  const std::string shards = make_labelled_set(dir_, 16);  // "patient" stands for the caption
  const ProcessResult result = try_out(
      "clip-captions", {"--train", shards, "--val", shards, "--batch-size", "8/all", "--model",
                        "airbench94(channels=[4, 8, 8])", "--task.text-key", "patient"});
  EXPECT_THAT(result.err, AllOf(HasSubstr("128 features of pictures and texts"),
                                HasSubstr("image_to_text_r5=")));
}

// Their models at full size take minutes on two cores.
TEST_F(Recipe, ImageNetMixesBatchesAndWarmsUp) {
  const std::string shards = dir_ / "c-000000.tar";
  millrace(
      {"create", dir_ / "c-%06d.tar", "--synthetic", "classes", "--count", "8", "--size", "40"});
  const std::vector<std::pair<std::string, std::string>> smaller = {
      {"imagenet-resnet50", "airbench94(channels=[4, 8, 8])"},
      {"imagenet-resnet50-a2", "airbench94(channels=[4, 8, 8])"},
      {"imagenet-vit-s16", "vit_s_16(8, width=32, depth=2, heads=2, stochastic_depth=0.1)"}};
  for (const auto& [name, model] : smaller) {
    const ProcessResult result =
        try_out(name, {"--train", shards, "--val", shards, "--classes", "10", "--size", "32",
                       "--devices", "2", "--batch-size", "4/all", "--model", model,
                       "--epoch-samples", "8", "--val-size", "0"});
    EXPECT_LT(json_lines(result.out).front()["lr"].get<double>(), 0.0051) << name;
    EXPECT_THAT(result.err, HasSubstr("Test Samples=")) << name;
  }
}

TEST_F(Recipe, ImageNetA2LeavesBlocksOut) {
  const ProcessResult summary =
      millrace({"train", "--config", recipe("imagenet-resnet50-a2"), "--summary"});
  EXPECT_EQ(summary.status, 0) << summary.err;
  EXPECT_THAT(summary.out, AllOf(HasSubstr("layer4.2.stochastic_depth"),
                                 Not(HasSubstr("layer1.0.stochastic_depth"))));
}

TEST_F(Recipe, FashionMnistAlexnetSplitsItsBatchOverDevices) {
  const std::string shards = make_set(dir_, 8, 4);
  const ProcessResult result = try_out(
      "fashion-mnist-alexnet",
      {"--train", shards, "--val", shards, "--size", "64", "--devices", "2", "--batch-size", "2"});
  EXPECT_THAT(result.err, HasSubstr("2 devices x batch size 2 = 4 samples per step"));
}

TEST_F(Recipe, DevicesAndPrecisionRunsOnEightDevicesAndOnTheSixth) {
  const std::string shards = make_set(dir_, 200, 50);
  const ProcessResult eight =
      try_out("devices-and-precision", {"--train", shards, "--batch-size", "4"});
  EXPECT_THAT(eight.err,
              AllOf(HasSubstr("Learning rate 0.005 x 8 devices = 0.04"), HasSubstr(", bf16\n")));
  const ProcessResult sixth = try_out("devices-and-precision",
                                      {"--train", shards, "--devices", "[5]", "--precision", "32"});
  EXPECT_THAT(sixth.err, AllOf(HasSubstr("Device=cpu:5/0"), HasSubstr(", fp32\n")));
}

TEST(Recipes, AreAllTriedAndDescribed) {
  std::set<std::string> names;
  for (const std::string& name : list_dir(MILLRACE_RECIPES))
    if (name.ends_with(".toml")) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{
                       "airbench94.toml", "cifar10-resnet18.toml", "cifar10-resnet50.toml",
                       "cifar10-simclr.toml", "camvid-unet.toml", "clip-captions.toml",
                       "devices-and-precision.toml", "fashion-mnist-alexnet.toml",
                       "imagenet-resnet50-a2.toml", "imagenet-resnet50.toml",
                       "imagenet-vit-s16.toml", "pe-resnet34.toml", "unet-mask-depth.toml"}));
  const std::string readme = read_file(MILLRACE_RECIPES "/README.md");
  for (const std::string& name : names) {
    EXPECT_THAT(readme, HasSubstr("`" + name + "`"));
    EXPECT_THAT(read_file(MILLRACE_RECIPES "/" + name),
                AllOf(HasSubstr("# Data:"), HasSubstr("millrace create"), HasSubstr("# Run"),
                      HasSubstr("--config tools/recipes/" + name)));
  }
}

}  // namespace
}  // namespace millrace::testing
