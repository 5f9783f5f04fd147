// Replica: what one device has of a run for itself: gradients, running statistics, plans.
//
// Weights are the run's, shared by all its replicas; each replica writes only the slices that its
// reducer owns, and only while no replica computes.
//
// Threads: its device's own thread, one at a time.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "pipeline/batch.h"
#include "trainer/collectives.h"
#include "trainer/gradient_reducer.h"
#include "trainer/model.h"
#include "trainer/nn/plan_cache.h"
#include "trainer/objective.h"

namespace millrace::trainer::detail {

struct ReplicaSetup {
  int rank = 0;
  const Model& model;
  const Objective& objective;
  nn::Precision precision = nn::Precision::kBFloat16;
  std::span<float> weights;
  Collectives& control;                   ///< for small, blocking exchanges
  Collectives* gradient_group = nullptr;  ///< null: never trains
  GradientReducerOptions reducer = {};
};

class Replica {
 public:
  explicit Replica(const ReplicaSetup& setup);

  int rank() const { return setup_.rank; }
  const Objective& objective() const { return setup_.objective; }
  Collectives& control() { return setup_.control; }
  std::span<float> gradients() { return gradients_; }
  std::span<float> buffers() { return buffers_; }
  GradientReducer& reducer() { return *reducer_; }

  /// The plan for batches like this one, compiled when it is the first.
  nn::Plan& plan_for(const pipeline::Batch& batch);
  /// The batch's input fields, in the plan's order.
  std::vector<std::span<const std::byte>> inputs_of(const pipeline::Batch& batch) const;
  /// Says that the weights were written.
  void parameters_changed();
  const std::vector<nn::Compilation>& compilations() const { return compilations_; }

 private:
  using Key = std::tuple<std::int64_t, decode::DType>;

  std::unique_ptr<nn::Plan> compile(const pipeline::Batch& batch, decode::DType dtype);

  ReplicaSetup setup_;
  std::vector<float> gradients_;
  std::vector<float> buffers_;
  std::unique_ptr<GradientReducer> reducer_;
  std::map<Key, std::unique_ptr<nn::Plan>> plans_;
  std::vector<nn::Compilation> compilations_;
};

}  // namespace millrace::trainer::detail
