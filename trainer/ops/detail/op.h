// Op: one group of layers as a plan runs it; Tensor: an array between ops.
#pragma once

#include <cstddef>
#include <vector>

#include "io/base/rng.h"
#include "trainer/nn/plan.h"
#include "trainer/ops/detail/onednn.h"
#include "trainer/ops/detail/work.h"

namespace millrace::trainer::ops {

class Lowering;

/// Index into the lowering's lifetimes.
inline constexpr std::size_t kOutsideArena = static_cast<std::size_t>(-1);

/// A memory whose address is known once the arena is planned.
struct Tensor {
  dnnl::memory memory;
  std::size_t buffer = kOutsideArena;
  /// Where bf16 is emulated: who writes it rounds its values.
  bool rounded = false;

  explicit operator bool() const { return static_cast<bool>(memory); }
  Desc desc() const { return memory.get_desc(); }
  void* data() const { return memory.get_data_handle(); }
};

/// One part of the gradient of a value; the gradient is the sum of its parts.
struct Gradient {
  Tensor tensor;
  bool shared = false;     ///< another op reads it too: not to be overwritten
  std::size_t result = 0;  ///< its place in Lowering::backward_results()
};

struct Pass {
  nn::Mode mode = nn::Mode::kTrain;
  nn::BatchKey key;
};

class Op {
 public:
  virtual ~Op() = default;

  /// Plans the backward pass, which reads `parts` (at least one), and passes its results to
  /// Lowering::add_gradient(). Called once, in the reverse of the ops' order.
  virtual void lower_backward(Lowering& lowering, std::vector<Gradient> parts) = 0;
  /// The flat parameters have changed.
  virtual void parameters_changed() {}

  /// What it does in each pass, in this order. The plan may append to it.
  Works& forward() { return forward_; }
  Works& backward() { return backward_; }

 private:
  Works forward_, backward_;
};

}  // namespace millrace::trainer::ops
