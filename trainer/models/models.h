// The models that come with millrace, as functions that build a graph.
//
//   const nn::Graph graph = build_model("resnet18", {.num_classes = 10, .stem = Stem::k3x3,
//                                                    .image = {32, 32}});
//
// Layer and parameter names, shapes and counts are torchvision's; LeNet's layers are conv1, conv2,
// fc1, fc2, fc3. The U-Net has up to two outputs, "mask" (logits) and "depth", each (C, H, W) with
// mask_channels and depth_channels; it ignores num_classes.
//
// Threads: functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trainer/nn/graph.h"

namespace millrace::trainer {

/// A ResNet's first layers: 7x7 stride 2 and a max-pool (ImageNet), or only 3x3 stride 1 (CIFAR).
enum class Stem { kImageNet, k3x3 };

struct ModelOptions {
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  nn::Extent2d image = 224;  ///< height and width of the input
  Stem stem = Stem::kImageNet;
  float dropout = 0.5F;             ///< AlexNet's, before its hidden layers
  std::int64_t mask_channels = 1;   ///< of the U-Net's output "mask"; 0: no such output
  std::int64_t depth_channels = 1;  ///< of its output "depth"
};

/// "alexnet", "lenet", "resnet18", "resnet34", "resnet50", "unet".
std::vector<std::string_view> model_names();

/// Throws: InvalidArgument for a name that is not in model_names(), with the list, and for an image
/// size that the model does not take.
nn::Graph build_model(std::string_view name, const ModelOptions& options);

}  // namespace millrace::trainer
