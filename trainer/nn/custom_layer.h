// CustomLayer: a layer of one's own, with its backward pass.
//
// It computes on float32 values in plain order, densely packed: (N, C, H, W) for images, (N, F) for
// features. A plan copies what it reads and writes from and to its own layout and type, which costs
// a pass over memory each: a layer that has to be fast is an op of the plan's (ops/).
//
//   class LayerScale final : public nn::CustomLayer { ... };
//   x = builder.custom("scale", std::make_shared<LayerScale>(), {x});
//
// In bf16 plans its inputs, its results and a weight of two or more dimensions are rounded to bf16.
//
// Threads: one layer serves the plans of all replicas, each on its device's thread, so members are
// const and keep nothing between calls; a call may use the thread's OpenMP team. For equal bits on
// any number of threads no sum may depend on how the work is split.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/nn/layers.h"
#include "trainer/parameters.h"

namespace millrace::trainer::hlo {
struct LayerArguments;
struct LayerResults;
}  // namespace millrace::trainer::hlo

namespace millrace::trainer::nn {

struct CustomParameter {
  Shape shape;
  Init init = Init::kKaimingUniform;
  std::int64_t fan = 1;  ///< of `init`: the inputs of an output
  bool decay = true;     ///< whether an optimizer's weight decay applies
  float value = 0.0F;    ///< Init::kConstant's
  std::optional<ParameterBounds> bounds = {};
};

using ConstValues = std::span<const float>;

struct CustomForward {
  std::int64_t samples = 0;
  bool training = true;
  std::span<const ConstValues> inputs;
  ConstValues weight;  ///< empty for none
  ConstValues bias;
  std::span<float> output;
};

/// What forward() read and wrote, and the gradients, all of which are to be overwritten.
struct CustomBackward {
  std::int64_t samples = 0;
  std::span<const ConstValues> inputs;
  ConstValues weight;
  ConstValues bias;
  ConstValues output;
  ConstValues output_gradient;
  /// An empty span for an input before which nothing learns.
  std::span<const std::span<float>> input_gradients;
  std::span<float> weight_gradient;
  std::span<float> bias_gradient;
};

class CustomLayer {
 public:
  virtual ~CustomLayer() = default;

  /// "layer_scale": the layer's kind in messages and summaries.
  virtual std::string_view kind() const = 0;
  /// The result's shape, of one sample. Throws: InvalidArgument for inputs that do not fit.
  virtual Shape shape(std::span<const Shape> inputs) const = 0;
  /// "<layer>.weight" and "<layer>.bias". Default: none.
  virtual std::optional<CustomParameter> weight(std::span<const Shape> /*inputs*/) const {
    return {};
  }
  virtual std::optional<CustomParameter> bias(std::span<const Shape> /*inputs*/) const {
    return {};
  }

  virtual void forward(const CustomForward& pass) const = 0;
  virtual void backward(const CustomBackward& pass) const = 0;
  /// The same in a compiled program (trainer/hlo/layer_program.h), whose images are (N, H, W, C).
  /// Default: none; a backend that compiles steps refuses the layer.
  virtual std::optional<hlo::LayerResults> stablehlo(const hlo::LayerArguments& at) const;
};

}  // namespace millrace::trainer::nn
