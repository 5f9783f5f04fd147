// Optimizer: one vectorised pass over the model's flat buffers, with PyTorch's numerics.
//
// The optimizer owns its state (momenta), flat float32 buffers of the parameters' layout; weights
// and gradients belong to the caller. A pass also writes the bf16 copy of the weights, where one is
// wanted. An update may be divided: each replica passes over its own ranges.
//
//   Optimizer optimizer({.kind = OptimizerKind::kSgd, .momentum = 0.9F}, model.parameters());
//   optimizer.update({.weights = w, .gradients = g, .lr = 0.1F, .step = 1}, {0, w.size()});
//
// Source: the update rules of torch.optim (SGD, Adam, AdamW), You, Gitman, Ginsburg, "Large batch
// training of convolutional networks" (LARS).
// Threads: update() from many threads at once for ranges that do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/parameters.h"

namespace millrace::trainer {

enum class OptimizerKind { kSgd, kAdam, kAdamW, kLars };

/// "sgd", "adam", "adamw", "lars". Throws: InvalidArgument, naming the ones there are.
OptimizerKind parse_optimizer_kind(std::string_view name);
std::string_view optimizer_kind_name(OptimizerKind kind);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  /// SGD and LARS: buf = momentum * buf + (1 - dampening) * g; the first step's buf is g.
  float momentum = 0.0F;
  float dampening = 0.0F;
  /// SGD: steps along g + momentum * buf.
  bool nesterov = false;
  /// SGD, Adam, LARS: g += weight_decay * w. AdamW: w *= 1 - lr * weight_decay.
  float weight_decay = 0.0F;
  /// Adam, AdamW.
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  /// Adam, AdamW: added outside the root.
  float epsilon = 1e-8F;
  /// LARS: the layer's rate is lr * trust * |w| / (|g| + weight_decay * |w|).
  float trust = 0.001F;
  /// Leaves biases and norms (Parameter::decay false) without weight decay.
  bool no_decay_on_biases_and_norms = false;
  /// Rounds weights and state to bf16 values after each update (precision bf16-true).
  bool round_to_bf16 = false;
};

/// Floats [begin, end) of a flat buffer.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

/// One step's buffers, all whole and of the parameters' layout.
struct Update {
  std::span<float> weights;
  std::span<const float> gradients;
  std::span<std::uint16_t> bf16_weights = {};  ///< written too, unless empty
  float lr = 0.0F;
  float gradient_scale = 1.0F;        ///< gradients count times this (norm clipping)
  std::int64_t step = 1;              ///< from 1, over the whole run
  std::span<const float> trust = {};  ///< LARS: one a parameter, from trust_ratios()
};

class Optimizer {
 public:
  /// Throws: InvalidArgument for options that contradict each other.
  Optimizer(const OptimizerOptions& options, const ParameterTable& table);

  const OptimizerOptions& options() const { return options_; }
  std::size_t num_parameters() const { return num_parameters_; }
  /// The state buffers' names as torch.optim has them: "momentum_buffer", "exp_avg", "exp_avg_sq".
  const std::vector<std::string>& state_names() const { return state_names_; }
  /// A state buffer, for checkpoints.
  std::span<float> state(std::size_t index) { return state_[index]; }

  /// Updates those weights and that state which lie in `range`, its bounds multiples of 16.
  void update(const Update& update, Range range);

  /// LARS: adds this range's share of each parameter's sums of squares, (|w|², |g|²) a parameter,
  /// to `sums` (2 doubles a parameter); summed over ranges they go to trust_ratios().
  void add_square_sums(const Update& update, Range range, std::span<double> sums) const;
  std::vector<float> trust_ratios(std::span<const double> sums) const;

 private:
  /// A run of floats whose parameters share their treatment.
  struct Run {
    Range range;
    bool decay = true;
    int parameter = -1;  ///< LARS alone
  };
  struct Scalars;

  void build_runs(const ParameterTable& table);
  Scalars scalars(const Update& update, const Run& run) const;
  void update_run(const Update& update, const Run& run, Range range);

  OptimizerOptions options_;
  std::size_t num_parameters_;
  std::vector<std::string> state_names_;
  std::vector<std::vector<float>> state_;
  std::vector<Run> runs_;
};

}  // namespace millrace::trainer
