// A layer of one's own: a learnt factor for each channel, as at the end of a residual branch.
// Source: Touvron and others, "Going deeper with image transformers" (2021), there called
// LayerScale.
#include <cstdio>
#include <memory>
#include <vector>

#include "millrace/trainer/nn/custom_layer.h"
#include "small_run.h"

namespace mr = millrace::trainer;

class LayerScale final : public mr::nn::CustomLayer {
 public:
  std::string_view kind() const override { return "layer_scale"; }
  mr::nn::Shape shape(std::span<const mr::nn::Shape> inputs) const override { return inputs[0]; }
  std::optional<mr::nn::CustomParameter> weight(
      std::span<const mr::nn::Shape> inputs) const override {
    return mr::nn::CustomParameter{{inputs[0][0]}, mr::nn::Init::kOnes, 1, false};
  }

  void forward(const mr::nn::CustomForward& pass) const override {
    const std::size_t pixels = pixels_of(pass.output.size(), pass.weight.size(), pass.samples);
    for (std::size_t i = 0; i < pass.output.size(); ++i)
      pass.output[i] = pass.inputs[0][i] * pass.weight[i / pixels % pass.weight.size()];
  }

  void backward(const mr::nn::CustomBackward& pass) const override {
    const std::size_t channels = pass.weight.size();
    const std::size_t pixels = pixels_of(pass.output.size(), channels, pass.samples);
    std::vector<double> sums(channels);
    for (std::size_t i = 0; i < pass.output.size(); ++i) {
      const std::size_t channel = i / pixels % channels;
      const float gradient = pass.output_gradient[i];
      sums[channel] += static_cast<double>(gradient) * static_cast<double>(pass.inputs[0][i]);
      if (!pass.input_gradients[0].empty())
        pass.input_gradients[0][i] = gradient * pass.weight[channel];
    }
    for (std::size_t c = 0; c < channels; ++c)
      pass.weight_gradient[c] = static_cast<float>(sums[c]);
  }

 private:
  static std::size_t pixels_of(std::size_t values, std::size_t channels, std::int64_t samples) {
    return values / channels / static_cast<std::size_t>(samples);
  }
};

mr::nn::Graph scaled_model() {
  mr::nn::GraphBuilder builder;
  mr::nn::Value x = builder.input("x", {2});
  x = builder.linear("first", x, {.features = 8});
  x = builder.custom("scale", std::make_shared<LayerScale>(), {x});
  builder.output("logits", builder.linear("fc", x, {.features = 2}));
  return builder.build();
}

int main() {
  const auto losses =
      small_run({.epochs = 6, .optimizer = {.rule = mr::Sgd{.lr = 0.1}}}, nullptr, scaled_model());
  std::printf("own layer: loss %.3f in the first epoch, %.3f in the last\n", losses.front(),
              losses.back());
  return losses.size() == 6 && losses.back() < losses.front() / 2 ? 0 : 1;
}
