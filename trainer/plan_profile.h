// PlanProfile: how long each step of a plan takes, beside the least time that this processor could
// do it in: which of a model's layers are slow, and how slow.
//
//   const PlanProfile profile = profile_plan(model, {.batch_size = 64, .precision = ...});
//   for (std::size_t i = 0; i < profile.steps.size(); ++i)
//     print(profile.steps[i].layer, profile.seconds[i], profile.limit_share(i));
//
// Threads: on the device's own thread, whose OpenMP team computes, as a Plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "trainer/model.h"
#include "trainer/nn/peaks.h"
#include "trainer/nn/plan_step.h"

namespace millrace::trainer {

struct PlanProfile {
  std::vector<nn::PlanStep> steps;  ///< of a training step, in the order in which they run
  std::vector<double> seconds;      ///< each step's median
  nn::Peaks peaks;                  ///< the FLOPs at least those that a step reaches
  /// Medians of the whole passes, with no step timed.
  double forward_seconds = 0;
  double backward_seconds = 0;
  int threads = 1;

  /// Of all steps.
  double sum_seconds() const;
  /// The least time of step `index` divided by its time; above 1 if its arrays are still in the
  /// caches when it begins.
  double limit_share(std::size_t index) const;
};

struct ProfileOptions {
  double seconds = 3;          ///< for the timed steps of training, beside the measured peaks
  std::int64_t min_steps = 3;  ///< however long these take
  std::int64_t max_steps = 0;  ///< 0: as many as there is time for
  std::uint64_t seed = 0;
  std::stop_token stop = {};  ///< ends it between two steps
};

/// Compiles the model's plan for training and runs it on random inputs and gradients. Throws: as
/// nn::compile(); Unsupported for a model whose plan does not describe itself; Cancelled.
PlanProfile profile_plan(const Model& model, const nn::PlanOptions& plan,
                         const ProfileOptions& options = {});

}  // namespace millrace::trainer
