// Optimizer: one pass of an update rule over flat buffers in the host's memory, with PyTorch's
// numerics.
//
// All buffers (weights, gradients, the rule's state) belong to the caller and have the parameters'
// layout. An update may be divided: each replica updates its own ranges.
//
//   const Optimizer optimizer({.rule = Sgd{.momentum = 0.9F}}, model.parameters());
//   optimizer.update({.weights = w, .gradients = g, .states = states, .lr = 0.1F, .step = 1},
//                    {0, w.size()});
//
// Threads: const, from many threads at once for ranges that do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/parameters.h"
#include "trainer/rules/sgd.h"
#include "trainer/update_rule.h"

namespace millrace::trainer {

struct OptimizerOptions {
  Rule rule = Sgd();
  /// Rounds weights and state to bf16 values after each update (precision bf16-true).
  bool round_to_bf16 = false;
};

/// Floats [begin, end) of a flat buffer.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

/// Bounds of a step's gradients (of the mean over its samples). Values are clipped before the norm.
struct ClipOptions {
  double norm = 0.0;   ///< of all gradients together, at most; 0: no bound
  float value = 0.0F;  ///< of each gradient's magnitude, at most; 0: no bound
};

/// One step's buffers, all whole and of the parameters' layout.
struct Update {
  std::span<float> weights;
  std::span<const float> gradients;
  std::span<const std::span<float>> states = {};  ///< as state_names(), zero before step 1
  float lr = 0.0F;
  float gradient_scale = 1.0F;  ///< factor of the gradients, for clipping by norm
  std::int64_t step = 1;        ///< from 1, over the whole run
  float base_lr = 0.0F;         ///< as StepNumbers'
  std::int64_t skipped = 0;     ///< likewise
  /// add_square_sums() of all ranges together; empty if num_square_sums() is 0.
  std::span<const double> square_sums = {};
};

/// Of the parameters of a group: without the factor of their norms.
RuleStep step_of(const Update& update, const ParameterSettings& settings);

class Optimizer {
 public:
  /// Throws: InvalidArgument for a rule's fields out of range or in contradiction; Unsupported for
  /// a MatrixRule (matrix_rule.h).
  Optimizer(const OptimizerOptions& options, const ParameterTable& table);

  const OptimizerOptions& options() const { return options_; }
  const std::vector<std::string>& state_names() const { return state_names_; }

  /// Updates the weights and state in `range`, the weights within their bounds. Requires: its
  /// bounds are multiples of 16.
  void update(const Update& update, Range range) const;

  /// For a rule that uses norms two doubles per parameter, (|w|², its UpdateRule::square_sum());
  /// for others 0.
  std::size_t num_square_sums() const { return num_square_sums_; }
  /// Adds the range's part of them to `sums`.
  void add_square_sums(const Update& update, Range range, std::span<double> sums) const;

 private:
  /// A run of floats with the same decay and rate.
  struct Run {
    Range range;
    ParameterSettings settings;
    int parameter = -1;  ///< whose norms its rate depends on; -1: none
  };

  struct Bounded {
    Range range;
    ParameterBounds bounds;
  };

  void build_runs(const ParameterTable& table);
  /// With the factor of its norms.
  RuleStep scaled_step_of(const Update& update, const Run& run) const;
  void apply(const Update& update, const RuleStep& step, Range range) const;
  void keep_bounds(const Update& update, Range range) const;

  OptimizerOptions options_;
  std::unique_ptr<UpdateRule> rule_;
  std::vector<std::string> state_names_;
  std::size_t num_square_sums_ = 0;
  std::vector<Run> runs_;
  std::vector<Bounded> bounded_;
};

}  // namespace millrace::trainer
