// Plan: a graph compiled for one device, one batch shape, one precision.
//
// Compiling creates the backend's primitives, lets it choose layouts, and plans all activations
// into one arena; a step after that allocates nothing. A Plan reads weights from, and writes
// gradients to, the replica's flat buffers.
//
//   plan.forward({batch.field("image").data}, Mode::kTrain);
//   loss(plan.output(0), targets, mask, plan.output_gradient(0));
//   plan.backward([&](std::size_t ready) { reducer.gradients_ready(ready); });
//
// Threads: one at a time, on the device's own thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace millrace::trainer::nn {

enum class Mode { kTrain, kEvaluate };
enum class Precision { kFloat32, kBFloat16 };

/// A float32 view of one of the graph's outputs, (N, ...) densely packed.
struct OutputView {
  std::vector<std::int64_t> shape;
  std::span<float> data;
};

class Plan {
 public:
  virtual ~Plan() = default;

  /// `inputs`: one a graph input, in its declared shape and dtype, NHWC for images.
  virtual void forward(std::span<const std::span<const std::byte>> inputs, Mode mode) = 0;
  virtual std::size_t num_outputs() const = 0;
  virtual OutputView output(std::size_t index) = 0;
  /// Where the loss writes d loss / d output before backward().
  virtual OutputView output_gradient(std::size_t index) = 0;
  /// Overwrites the whole gradient buffer. `ready(n)` is called as the first n floats of it become
  /// final, n growing to the buffer's size.
  virtual void backward(const std::function<void(std::size_t)>& ready) = 0;
};

}  // namespace millrace::trainer::nn
