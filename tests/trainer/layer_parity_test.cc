// Every layer of the models, and those that no model has, each alone against PyTorch's: the same
// inputs, weights and incoming gradient must give the same output, gradients and running
// statistics, in training and in evaluation, within a fixed limit. nn_parity_test.cc compares whole
// models.
//
// The exact answer is PyTorch's in float64 on the values that the layer receives. Skipped if
// python3 has no torch. MILLRACE_PARITY_PRINT prints every distance.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/effort.h"
#include "tests/trainer/layer_case.h"
#include "tests/trainer/nn_support.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/models/models.h"

namespace millrace::trainer {
namespace {

using nn::Precision;
using testing::LayerTensor;

constexpr std::int64_t kLayerBatch = 2;
constexpr double kLayerFloat32 = 1e-5;
constexpr double kLayerBFloat16 = 5e-3;  // a little above two roundings

const char* name_of(Precision precision) {
  return precision == Precision::kBFloat16 ? "bf16" : "fp32";
}

// A case in one precision, with PyTorch's input values.
class LayerComparison {
 public:
  LayerComparison(const LayerCase& taken, Precision precision, std::vector<LayerTensor> tensors)
      : taken_(taken),
        precision_(precision),
        tensors_(std::move(tensors)),
        network_(graph_of(taken, kLayerBatch),
                 {.batch_size = kLayerBatch, .precision = precision}) {
    for (const LayerTensor& tensor : tensors_) {
      if (tensor.kind == "parameter") fill(network_.parameter(tensor.name), tensor);
      if (tensor.kind == "state") fill(state(tensor.name), tensor);
    }
  }

  void compare() {
    if (const LayerTensor* incoming = find("incoming")) compare_training(incoming->values);
    const nn::OutputView view = network_.forward({input()}, nn::Mode::kEvaluate);
    near(*find("evaluated"), view.data);
  }

 private:
  void compare_training(const std::vector<float>& incoming) {
    near(*find("output"), network_.forward({input()}).data);
    network_.backward(incoming);
    for (const LayerTensor& tensor : tensors_) {
      if (tensor.kind == "gradient") near(tensor, network_.gradient(tensor.name));
      if (tensor.kind == "state_after") near(tensor, state(tensor.name));
    }
  }

  // The image; or the identity, from which the layers before compute the inputs.
  std::vector<float> input() const {
    if (const LayerTensor* image = find("image")) return image->values;
    std::vector<float> identity(kLayerBatch * kLayerBatch, 0.0F);
    for (std::size_t i = 0; i < identity.size(); i += kLayerBatch + 1) identity[i] = 1.0F;
    return identity;
  }

  const LayerTensor* find(const std::string& kind) const {
    const auto found = std::ranges::find(tensors_, kind, &LayerTensor::kind);
    return found == tensors_.end() ? nullptr : &*found;
  }

  std::span<float> state(const std::string& name) {
    const Parameter* entry = network_.graph().buffers().find(name);
    return network_.buffers().subspan(entry->offset, entry->size);
  }

  static void fill(std::span<float> values, const LayerTensor& tensor) {
    ASSERT_EQ(values.size(), tensor.values.size()) << tensor.name;
    std::ranges::copy(tensor.values, values.begin());
  }

  void near(const LayerTensor& exact, std::span<const float> ours) const {
    const std::string what = std::string(name_of(precision_)) + ' ' + describe(taken_) + ": " +
                             exact.kind + ' ' + exact.name;
    ASSERT_EQ(exact.values.size(), ours.size()) << what;
    const double error = relative_error(ours, exact.values);
    testing::print_distance(what, error);
    const double limit = precision_ == Precision::kBFloat16 ? kLayerBFloat16 : kLayerFloat32;
    EXPECT_LE(error, limit) << what;
  }

  const LayerCase& taken_;
  Precision precision_;
  std::vector<LayerTensor> tensors_;
  Network network_;
};

void compare_layers(const std::vector<LayerCase>& cases) {
  if (!testing::have_torchvision()) GTEST_SKIP() << "python3 has no torch";
  constexpr std::array kPrecisions = {Precision::kFloat32, Precision::kBFloat16};
  std::string lines;
  for (const LayerCase& taken : cases) {
    for (const Precision precision : kPrecisions) {
      lines += std::string(name_of(precision)) + ' ' + std::to_string(kLayerBatch) + ' ' +
               describe(taken) + '\n';
    }
  }
  testing::TorchLayers oracle(lines);
  for (const LayerCase& taken : cases) {
    for (const Precision precision : kPrecisions) {
      std::vector<LayerTensor> tensors = oracle.next();
      ASSERT_FALSE(tensors.empty()) << "PyTorch failed at " << describe(taken);
      LayerComparison(taken, precision, std::move(tensors)).compare();
    }
  }
}

using Zoo = std::vector<nn::Graph>;

// Sides that differ, so that exchanging height and width fails, and with which the last stages
// still have six pixels: batch norm needs a few values.
void add_wide(Zoo& models, const std::vector<const char*>& names) {
  for (const char* name : names)
    models.push_back(build_model(name, {.num_classes = 10, .image = {64, 96}}));
}

Zoo zoo() {
  Zoo models;
  models.push_back(build_model("lenet", {.num_classes = 10, .in_channels = 1, .image = {28, 36}}));
  models.push_back(build_model("resnet18(stem=3x3)", {.num_classes = 10, .image = {16, 24}}));
  add_wide(models, {"alexnet", "resnet18", "resnet34", "resnet50", "unet"});
  return models;
}

Zoo larger_zoo() {
  Zoo models;
  add_wide(models, {"resnext50_32x4d", "wide_resnet50_2", "mobilenet_v3_large",
                    "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny"});
  return models;
}

// Each kind of layer at each shape once.
std::vector<LayerCase> layers_of_the_zoo(const Zoo& models) {
  std::vector<LayerCase> cases;
  std::set<std::string> seen;
  for (const nn::Graph& model : models) {
    for (LayerCase& taken : layers_of(model)) {
      if (seen.insert(describe(taken)).second) cases.push_back(std::move(taken));
    }
  }
  return cases;
}

TEST(LayerParity, HoldsForEveryLayerOfEveryModel) {
  const std::vector<LayerCase> cases = layers_of_the_zoo(zoo());
  EXPECT_GT(cases.size(), 100U);
  compare_layers(cases);
}

// Any run compares their kinds of layers below.
TEST(LayerParity, HoldsForEveryLayerOfTheLargerZoo) {
  if (!testing::is_long()) GTEST_SKIP() << "MILLRACE_LONG is not set";
  compare_layers(layers_of_the_zoo(larger_zoo()));
}

TEST(LayerParity, HoldsForLayersThatNoModelHas) {
  using nn::ActivationKind;
  using nn::UpsampleMode;
  const nn::Shape odd = {20, 7, 10};  // not whole blocks of channels
  compare_layers({
      {{nn::Conv2d{.channels = 24, .kernel = {3, 2}, .dilation = 2}}, {odd}},
      {{nn::Conv2d{.channels = 12, .kernel = {3, 5}, .stride = {2, 1}, .padding = {0, 2}}}, {odd}},
      {{nn::Conv2d{.channels = 12, .kernel = 3, .padding = 1, .groups = 2}}, {odd}},
      {{nn::Conv2d{.channels = 32, .kernel = 3, .padding = 1, .groups = 32}, nn::Relu{}},
       {{32, 9, 6}}},
      {{nn::Conv2d{.channels = 5, .kernel = 1}, nn::Relu{}}, {{3, 9, 6}}},
      {{nn::Conv2d{.channels = 20, .kernel = 3}}, {{4, 9, 6}}, true},
      {{nn::ConvTranspose2d{
           .channels = 3, .kernel = 3, .stride = 2, .padding = 1, .output_padding = 1}},
       {odd}},
      {{nn::ConvTranspose2d{.channels = 32, .kernel = {4, 2}, .padding = {1, 0}, .bias = false}},
       {{16, 5, 8}}},
      {{nn::BatchNorm{.epsilon = 1e-3F, .momentum = 0.25F}}, {odd}},
      {{nn::BatchNorm{}, nn::Add{}, nn::Relu{}}, {odd, odd}},
      {{nn::Relu{}}, {{35}}},
      {{nn::Activation{ActivationKind::kLeakyRelu, 0.2F}}, {odd}},
      {{nn::Activation{ActivationKind::kSigmoid}}, {odd}},
      {{nn::Activation{ActivationKind::kGelu}}, {odd}},
      {{nn::Activation{ActivationKind::kGelu}}, {{35}}},
      {{nn::Activation{ActivationKind::kSilu, 1}}, {odd}},
      {{nn::Activation{ActivationKind::kHardSwish}}, {odd}},
      {{nn::Activation{ActivationKind::kHardSwish}}, {{35}}},
      {{nn::Activation{ActivationKind::kHardSigmoid}}, {odd}},
      {{nn::Activation{ActivationKind::kHardSigmoid}}, {{35}}},
      {{nn::Scale{}}, {odd, {20, 1, 1}}},
      {{nn::Scale{}}, {{32, 5, 6}, {32, 1, 1}}},
      {{nn::StochasticDepth{.probability = 0.3F}}, {odd}},
      {{nn::LayerNorm{}}, {odd}},
      {{nn::LayerNorm{.epsilon = 1e-2F}}, {{35}}},
      {{nn::LayerNorm{}}, {{32, 5, 6}}},
      {{nn::ChannelScale{}}, {odd}},
      {{nn::Tokens{}}, {odd}},
      {{nn::Tokens{}}, {{32, 2, 3}}},
      {{nn::Attention{.heads = 4}}, {{60, 7, 1}}},  // heads of 5 channels
      {{nn::Attention{.heads = 2}}, {{96, 19, 1}}},
      {{nn::Attention{.heads = 2, .causal = true}}, {{96, 19, 1}}},
      {{nn::TakeToken{.index = 2}}, {{20, 7, 1}}},
      {{nn::Conv2d{.channels = 24, .kernel = 1, .flat = true}}, {odd}},
      {{nn::Softmax{}}, {odd}},
      {{nn::Softmax{}}, {{35}}},
      {{nn::Add{}}, {{35}, {35}}},
      {{nn::Add{}, nn::Relu{}}, {odd, odd}},
      {{nn::Concat{}}, {odd, {5, 7, 10}, {16, 7, 10}}},
      {{nn::Concat{}}, {{35}, {4}}},
      {{nn::Dropout{.probability = 0.3F}}, {odd}},
      {{nn::MaxPool2d{.kernel = {2, 3}, .stride = {2, 1}, .padding = {0, 1}}}, {odd}},
      {{nn::AvgPool2d{}}, {odd}},
      {{nn::AvgPool2d{.kernel = 3, .stride = {2, 1}, .padding = 1}}, {odd}},
      {{nn::AdaptiveAvgPool2d{}}, {odd}},
      {{nn::AdaptiveAvgPool2d{.size = {4, 3}}}, {odd}},
      {{nn::AdaptiveAvgPool2d{.size = {9, 12}}}, {odd}},
      {{nn::AdaptiveAvgPool2d{.size = 6}}, {{16, 1, 1}}},  // one input in 36 windows
      {{nn::Upsample{}}, {odd}},
      {{nn::Upsample{.factor = 3, .mode = UpsampleMode::kBilinear}}, {odd}},
      {{nn::Flatten{}}, {odd}},
      {{nn::Reshape{{10, 5, 28}}}, {odd}},
      {{nn::Reshape{{1400}}}, {odd}},
      {{nn::Linear{.features = 33, .bias = false}}, {{35}}},
      {{nn::Linear{.features = 33}, nn::Relu{}}, {{35}}, true},
  });
}

}  // namespace
}  // namespace millrace::trainer
