// Plan: a model compiled for one device, one batch size and one precision; and compile(), which
// compiles a graph for the CPU. A run's plans come from its backend (trainer/composed_backend.h).
//
// Compiling creates primitives, chooses layouts, and plans all activations into one arena. A Plan
// reads weights and running statistics from, and writes gradients and running statistics to, the
// replica's flat buffers.
//
//   auto plan = compile(graph, {.batch_size = 128, .precision = Precision::kBFloat16},
//                       {.parameters = weights, .gradients = gradients, .buffers = buffers});
//   const std::span<const std::byte> image = batch.field("image").data;
//   plan->forward({&image, 1}, Mode::kTrain);
//   loss->evaluate({.prediction = plan->output(0), .gradient = plan->output_gradient(0).data,
//   ...}); plan->backward([&](std::size_t ready) { reducer.gradients_ready(ready); });
//   ...                          // the weights change
//   plan->parameters_changed();
//
// Threads: one at a time, on the device's own thread, which also compiles it: the work is done by
// that thread's OpenMP team (omp_set_num_threads).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/array_view.h"
#include "io/base/rng.h"
#include "trainer/nn/graph.h"
#include "trainer/nn/plan_step.h"

namespace millrace::trainer::nn {

enum class Mode { kTrain, kEvaluate };
/// In kBFloat16 a plan of a graph reads weights (parameters of two and more dimensions) rounded to
/// bf16, and biases and norms as they are.
enum class Precision { kFloat32, kBFloat16 };

/// A float32 view of one of the graph's outputs, (N, ...) densely packed.
struct OutputView {
  std::vector<std::int64_t> shape;
  std::span<float> data;

  /// Eigen maps; include decode/eigen.h to use them: all axes, or (N, values of a sample). Throws:
  /// InvalidArgument for another number of dimensions.
  template <typename T, int Rank>
  auto tensor() const {
    return decode::EigenView<T>::template tensor<Rank>(view());
  }
  template <typename T = float>
  auto matrix() const {
    return decode::EigenView<T>::matrix(view());
  }

  decode::ArrayView view() const {
    return {"an output", decode::DType::kFloat32, shape, std::as_writable_bytes(data)};
  }
};

/// Of dropout's choices; the stream is the layer's number in its graph.
inline constexpr Purpose kDropout{8};

/// The keys of a batch's samples: sample i has `first`, its index greater by i * stride. With the
/// samples' slots in the epoch as indexes, choices are the same on any number of devices.
struct BatchKey {
  RngKey first = {};
  std::uint64_t stride = 1;
};

/// Called with an offset of the flat parameters.
using ParametersNeeded = std::function<void(std::size_t)>;

class Plan {
 public:
  virtual ~Plan() = default;

  /// `inputs`: one per graph input, (N, H, W, C) for images and (N, F) for features, densely
  /// packed, of PlanOptions::input_dtype. Lifetime: borrowed until backward() has returned. Throws:
  /// InvalidArgument for a wrong number of inputs or bytes.
  /// Calls `needed(n)`, if given, before it reads parameters at or behind offset n of the flat
  /// buffer, with n falling: what lies before n may be written until then.
  virtual void forward(std::span<const std::span<const std::byte>> inputs, Mode mode,
                       const ParametersNeeded& needed) = 0;
  void forward(std::span<const std::span<const std::byte>> inputs, Mode mode) {
    forward(inputs, mode, {});
  }
  virtual std::size_t num_outputs() const = 0;
  /// In the host's memory, filled by forward() and valid until the next one. Images are (N, C, H,
  /// W).
  virtual OutputView output(std::size_t index) = 0;
  /// For the loss to write d loss / d output to before backward(); in the host's memory.
  virtual OutputView output_gradient(std::size_t index) = 0;
  /// Overwrites every parameter's gradient; the gaps between them keep their zeros. Calls
  /// `ready(n)` when the first n floats of the buffer are final, with n growing to the buffer's
  /// size. Requires: compiled with gradients; one forward() in Mode::kTrain before each.
  virtual void backward(const std::function<void(std::size_t)>& ready) = 0;

  /// To be called after the flat parameter buffer was written: the next forward() converts the
  /// weights again (layout, bf16).
  virtual void parameters_changed() = 0;
  /// Keys the random choices of the following forward() calls. Purpose and stream are set by the
  /// layer.
  virtual void set_random_key(const BatchKey& key) = 0;

  /// Bytes of the arena that activations and their gradients share.
  virtual std::size_t activation_bytes() const = 0;

  /// What forward() and, in a plan with gradients, then backward() do, in this order. Default:
  /// nothing, for a backend that does not tell.
  virtual std::vector<PlanStep> describe() const { return {}; }
  /// From now on forward() and backward() write the seconds that each of describe()'s steps took
  /// into `seconds`, one each; empty: no more, as at first. Lifetime: borrowed.
  virtual void time_into(std::span<double> seconds) { static_cast<void>(seconds); }
};

struct PlanOptions {
  std::int64_t batch_size = 1;
  Precision precision = Precision::kFloat32;
  /// Of forward()'s inputs: float32 or bf16.
  decode::DType input_dtype = decode::DType::kFloat32;
};

/// Flat buffers in the host's memory, laid out by graph.parameters() and graph.buffers(). Lifetime:
/// must outlive the plan.
struct PlanMemory {
  std::span<const float> parameters;
  std::span<float> gradients;  ///< empty for a plan that never calls backward()
  std::span<float> buffers;    ///< running statistics
};

/// Throws: InvalidArgument for buffers of the wrong size, a batch below 1, an input dtype other
/// than float32 and bf16; Unsupported for a layer that oneDNN cannot compute on this processor, and
/// for any in a build without oneDNN.
std::unique_ptr<Plan> compile(const Graph& graph, const PlanOptions& options,
                              const PlanMemory& memory);

/// Whether the processor computes in bf16; otherwise plans compute in float32 and round.
bool has_native_bfloat16();

/// What plans compute with: "oneDNN 2.6.3, AVX-512 with bf16". Empty in a build without
/// (MILLRACE_TRAINER=OFF), where compile() throws Unsupported and the rest of the room works.
std::string compute_library();

}  // namespace millrace::trainer::nn
