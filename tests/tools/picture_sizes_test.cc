// Pictures that evaluation, and a run's start values, see otherwise than training does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/tools/support.h"
#include "trainer/weights.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

/// What a step of `model` costs is little, and what it learns is not looked at.
ProcessResult train_a_step(const std::string& model, const std::vector<std::string>& more,
                           const std::string& augment = "rrc") {
  std::vector<std::string> words = {
      "train", "--model",  model,       "--size", "32",          "--batch-size",
      "8",     "--epochs", "1",         "--lr",   "0.001",       "--limit-train-batches",
      "1",     "--json",   "--augment", augment,  "--precision", "fp32"};
  words.insert(words.end(), more.begin(), more.end());
  return millrace(words);
}

double val_loss_of(const ProcessResult& result, const std::string& event) {
  EXPECT_EQ(result.status, 0) << result.err;
  for (const auto& line : json_lines(result.out))
    if (line["event"] == event) return line["val_loss"].get<double>();
  ADD_FAILURE() << "no " << event << " in " << result.out;
  return 0;
}

double evaluated(const std::string& run, const std::string& shards,
                 const std::vector<std::string>& more) {
  std::vector<std::string> words = {
      "eval",   shards,        "--checkpoint", run + "/checkpoints/last",
      "--json", "--precision", "fp32",         "--batch-size",
      "8"};
  words.insert(words.end(), more.begin(), more.end());
  return val_loss_of(millrace(words), "eval");
}

TEST(PictureSizes, ARunTrainedAtOneSizeIsEvaluatedAtAnother) {
  const TempDir dir;
  const std::string shards = make_set(dir, 16, 8);
  const std::vector<std::string> data = {"--train", shards, "--val", shards, "--ema", "0.5"};
  const auto train = [&](const std::string& run, const std::vector<std::string>& more) {
    std::vector<std::string> words = data;
    words.insert(words.end(), {"--run-dir", dir / run});
    words.insert(words.end(), more.begin(), more.end());
    return train_a_step("mobilenet_v3_small", words);
  };
  const std::vector<std::string> larger = {"--size", "48", "--eval-resize", "56"};
  const ProcessResult apart = train("apart", {"--val-size", "48", "--eval-resize", "56"});
  const double loss = val_loss_of(apart, "epoch");
  EXPECT_THAT(apart.err, HasSubstr("evaluations are of pictures of 48"));
  EXPECT_DOUBLE_EQ(evaluated(dir / "apart", shards, {}), loss) << "the checkpoint says the size";
  EXPECT_NEAR(evaluated(dir / "apart", shards, {"--devices", "2"}), loss, 1e-5);

  const double at_one_size = val_loss_of(train("alike", {}), "epoch");
  EXPECT_NE(at_one_size, loss);
  EXPECT_EQ(read_file(dir / "alike/checkpoints/last/model.safetensors"),
            read_file(dir / "apart/checkpoints/last/model.safetensors"))
      << "training is the same";
  EXPECT_DOUBLE_EQ(evaluated(dir / "alike", shards, larger), loss);
  EXPECT_DOUBLE_EQ(evaluated(dir / "apart", shards, {"--size", "32", "--eval-resize", "36"}),
                   at_one_size)
      << "8/7 of 32";
}

TEST(PictureSizes, AModelOfOneSizeIsRefusedByTheParameterThatHasIt) {
  const TempDir dir;
  const std::string shards = make_set(dir, 16, 8);
  const std::vector<std::string> data = {"--train", shards, "--val", shards};
  const auto refusal = [&](const std::string& model, std::vector<std::string> more) {
    more.insert(more.end(), data.begin(), data.end());
    const ProcessResult refused = train_a_step(model, more);
    EXPECT_EQ(refused.status, 2);
    return refused.err;
  };
  EXPECT_THAT(refusal("lenet", {"--val-size", "40"}),
              HasSubstr("lenet is for pictures of one size, 32: its fc1.weight has another shape "
                        "at 40"));
  EXPECT_THAT(refusal("resnet18", {"--val-size", "40", "--eval-resize", "36"}),
              HasSubstr("--eval-resize 36 is below --val-size 40"));
  EXPECT_THAT(refusal("resnet18", {"--val-size", "nothing"}), HasSubstr("--val-size"));

  // Its embeddings of positions are resized, but not while they are trained.
  const std::string vit = "vit_s_16(8, width=32, depth=2, heads=2)";
  EXPECT_THAT(refusal(vit, {"--val-size", "48"}), HasSubstr("`millrace eval --size 48`"));
  std::vector<std::string> words = {"--run-dir", dir / "run"};
  words.insert(words.end(), data.begin(), data.end());
  ASSERT_EQ(train_a_step(vit, words).status, 0);
  const ProcessResult larger =
      millrace({"eval", shards, "--checkpoint", dir / "run", "--size", "48"});
  EXPECT_EQ(larger.status, 0) << larger.err;
  EXPECT_THAT(larger.err, HasSubstr("encoder.pos_embedding is resized to 48"));
  const ProcessResult below = millrace(
      {"eval", shards, "--checkpoint", dir / "run", "--size", "48", "--eval-resize", "36"});
  EXPECT_EQ(below.status, 2);
  EXPECT_THAT(below.err, HasSubstr("--eval-resize 36 is below --size 48"));
}

std::vector<float> filters_of(const std::string& run) {
  const trainer::Safetensors file = trainer::read_weights(run + "/checkpoints/last");
  const trainer::Tensor& tensor = file.tensors.at("whiten.weight");
  std::vector<float> values(tensor.num_values());
  tensor.copy_to(values);
  return values;
}

TEST(PictureSizes, WhiteningFiltersAreOfPicturesWithoutAugmentation) {
  const TempDir dir;
  const std::string shards = make_set(dir, 16, 8);
  const auto filters = [&](const std::string& run, const std::string& augment, int samples) {
    const ProcessResult result = train_a_step(
        "airbench94(channels=[4, 8, 8], whitening_samples=" + std::to_string(samples) + ")",
        {"--train", shards, "--optimizer", "sgd(0.1, groups=[group(whiten.weight, rate=0)])",
         "--run-dir", dir / run},
        augment);
    EXPECT_EQ(result.status, 0) << result.err;
    return filters_of(dir / run);
  };
  EXPECT_EQ(filters("plain", "none", 8), filters("turned", "rcrop(padding=4), hflip", 8));
  EXPECT_NE(filters("first", "none", 0), filters("other", "rcrop(padding=4), hflip", 0))
      << "those of the first step's batches are as the step sees them";
}

}  // namespace
}  // namespace millrace::testing
