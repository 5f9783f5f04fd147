// The models that come with millrace: each is a component that builds a graph.
//
//   const nn::Graph graph = build_model("resnet18(stem=3x3)",
//                                       {.num_classes = 10, .image = {32, 32}});
//   const ArchitectureChoice choice = models::ResNet18{.stem = Stem::k3x3};      // likewise
//   const nn::Graph same = choice.make()->build({.num_classes = 10, .image = {32, 32}});
//
// Layer and parameter names, shapes and counts are torchvision's; LeNet's layers are conv1, conv2,
// fc1, fc2, fc3. The U-Net has up to two outputs, "mask" (logits) and "depth", each (C, H, W) with
// mask_channels and depth_channels; it ignores num_classes.
//
// To add one: a file pair here, a line in the table of models.cc; in another program a line in a
// copy of the table.
//
// Threads: const, from any.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "io/component/choice.h"
#include "trainer/nn/graph.h"

namespace millrace::trainer {

/// What a run asks of a model, whichever it is.
struct ModelOptions {
  std::int64_t num_classes = 1000;
  std::int64_t in_channels = 3;
  nn::Extent2d image = 224;         ///< height and width of the input
  std::int64_t mask_channels = 1;   ///< of a dense model's output "mask"; 0: no such output
  std::int64_t depth_channels = 1;  ///< of its output "depth"
};

/// What is known of a model before it is built.
struct ModelTraits {
  int side = 224;  ///< of its images, height and width, unless a run says otherwise
  int channels = 3;
  bool is_dense = false;  ///< its outputs are images, "mask" and "depth", not "logits"
  int multiple_of = 1;    ///< what its images' sides are multiples of
};

/// Builds a model's graph.
class Architecture {
 public:
  explicit Architecture(const ModelTraits& traits) : traits_(traits) {}
  virtual ~Architecture() = default;

  const ModelTraits& traits() const { return traits_; }
  /// Throws: InvalidArgument for an image size that the model does not take.
  virtual nn::Graph build(const ModelOptions& options) const = 0;

 private:
  ModelTraits traits_;
};

/// Of a function: nn::Graph(const ModelOptions& options).
template <typename Build>
std::unique_ptr<Architecture> make_architecture(const ModelTraits& traits, Build function) {
  class Built final : public Architecture {
   public:
    Built(const ModelTraits& traits, Build function)
        : Architecture(traits), function_(std::move(function)) {}
    nn::Graph build(const ModelOptions& options) const override { return function_(options); }

   private:
    Build function_;
  };
  return std::make_unique<Built>(traits, std::move(function));
}

using ArchitectureChoice = Choice<Architecture>;

/// airbench94, alexnet, convnext_tiny, efficientnet_b0, lenet, mobilenet_v3_large,
/// mobilenet_v3_small, resnet18, resnet34, resnet50, resnext50_32x4d, wide_resnet50_2, unet,
/// vit_b_16, vit_s_16.
const TableOf<Architecture>& standard_models();

/// Of a call: "resnet18", "resnet18(stem=3x3)". Throws: InvalidArgument, with the nearest name, for
/// a model that is not in the table, and as build().
nn::Graph build_model(std::string_view call, const ModelOptions& options);

}  // namespace millrace::trainer
