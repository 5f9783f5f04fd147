// Weights with torchvision's names: ours load into its models, strictly, with the same logits; its
// own load into ours. Skipped if python3 has no torchvision.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/trainer/nn_support.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/models/models.h"
#include "trainer/weights.h"

namespace millrace::trainer {
namespace {

constexpr std::int64_t kImage = 64;
constexpr std::int64_t kBatch = 2;

std::vector<FlatTensors> tensors(Network& network) {
  return {{.table = &network.graph().parameters(), .values = network.parameters()},
          {.table = &network.graph().buffers(), .values = network.buffers()}};
}

class TorchvisionWeights : public ::testing::TestWithParam<const char*> {};

TEST_P(TorchvisionWeights, GoBothWays) {
  if (!testing::have_torchvision()) GTEST_SKIP() << "python3 has no torchvision";
  const testing::TempDir folder;
  Network network(build_model(GetParam(), {.image = kImage, .dropout = 0}),
                  {.batch_size = kBatch, .precision = nn::Precision::kFloat32});
  save_weights(folder / "ours.safetensors", tensors(network));
  const auto images = random_values(kBatch * kImage * kImage * 3, 4);
  testing::write_values<float>(folder / "images.bin", images);
  const std::string command =
      std::string("/usr/bin/python3 tests/trainer/torchvision_weights.py ") + GetParam() + ' ' +
      folder.path().string() + ' ' + std::to_string(kImage);
  ASSERT_EQ(0, std::system(command.c_str()));

  const auto evaluate = [&] { return network.forward({images}, nn::Mode::kEvaluate).data; };
  EXPECT_LT(relative_error(evaluate(), testing::read_floats(folder / "ours.bin")), 1e-5);
  EXPECT_TRUE(load_weights(folder / "theirs.safetensors", tensors(network)).kept.empty());
  EXPECT_LT(relative_error(evaluate(), testing::read_floats(folder / "theirs.bin")), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, TorchvisionWeights,
                         ::testing::Values("resnet18", "resnet34", "resnet50", "alexnet"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace millrace::trainer
