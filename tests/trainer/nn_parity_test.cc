// The models beside PyTorch: the same weights and batch give the same outputs, loss, gradients and
// running statistics, and the same training. Skipped where python3 has no torch (apt install
// python3-torchvision). MILLRACE_PARITY_PRINT shows every distance.
#include <gtest/gtest.h>

#include "tests/trainer/torch_oracle.h"
#include "tests/trainer/torch_parity.h"

namespace millrace::trainer {
namespace {

void compare(const ParitySetup& setup) {
  if (!testing::have_torchvision()) GTEST_SKIP() << "python3 has no torchvision";
  TorchParity parity(setup);
  for (const auto precision : {nn::Precision::kFloat32, nn::Precision::kBFloat16}) {
    parity.compare_step(precision);
    parity.compare_training(precision);
  }
}

TEST(Parity, LeNet) {
  compare({.model = "lenet",
           .options = {.num_classes = 10, .in_channels = 1, .image = 28},
           .batch = 8,
           .smoothing = 0.1F});
}

TEST(Parity, ResNet18) {
  compare({.model = "resnet18", .options = {.num_classes = 10, .image = 64}, .seed = 5});
}

TEST(Parity, ResNet18WithTheSmallStem) {
  compare({.model = "resnet18",
           .options = {.num_classes = 10, .image = 16, .stem = Stem::k3x3},
           .batch = 8});
}

TEST(Parity, ResNet34) {
  compare(
      {.model = "resnet34", .options = {.num_classes = 10, .image = 64}, .seed = 7, .lr = 0.0002F});
}

TEST(Parity, ResNet50) {
  compare(
      {.model = "resnet50", .options = {.num_classes = 10, .image = 64}, .seed = 7, .lr = 0.0002F});
}

// Without dropout: nobody else draws our numbers.
TEST(Parity, AlexNet) {
  compare({.model = "alexnet", .options = {.num_classes = 10, .image = 64, .dropout = 0}});
}

TEST(Parity, UNet) { compare({.model = "unet", .options = {.image = 64}, .seed = 8}); }

}  // namespace
}  // namespace millrace::trainer
