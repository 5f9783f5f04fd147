// Replica: one device's own part of a run: gradients, running statistics, plans.
//
// The weights are shared by all replicas of the process; each replica writes only the slices that
// its reducer owns, and only while no replica computes.
//
// Each combination of batch size and input type is compiled once. The list of compilations shows
// whether a run's shapes keep changing.
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
#include "trainer/backend.h"
#include "trainer/collectives.h"
#include "trainer/detail/weight_gather.h"
#include "trainer/gradient_reducer.h"
#include "trainer/model.h"
#include "trainer/objective.h"

namespace millrace::trainer::detail {

/// One compilation, for the metrics report.
struct Compilation {
  std::string shape;  ///< "128 x resnet18 bf16"
  std::chrono::duration<double> seconds{0};
  std::size_t activation_bytes = 0;
};

struct ReplicaSetup {
  int device = 0;  ///< of this process
  Backend& backend;
  const Model& model;
  const Objective& objective;
  nn::Precision precision = nn::Precision::kBFloat16;
  DeviceSpan weights;
  Collectives& control;                   ///< for small, blocking exchanges
  Collectives* gradient_group = nullptr;  ///< null: never trains
  Collectives* weight_group = nullptr;    ///< null: the weights are this process's alone
  GradientReducerOptions reducer = {};
};

class Replica {
 public:
  explicit Replica(const ReplicaSetup& setup);

  /// Of all replicas of the run.
  int rank() const { return setup_.control.rank(); }
  /// Of this process's devices: an index into what there is one of per device.
  int device() const { return setup_.device; }
  Backend& backend() { return setup_.backend; }
  const Model& model() const { return setup_.model; }
  const Objective& objective() const { return setup_.objective; }
  Collectives& control() { return setup_.control; }
  DeviceSpan gradients() const { return gradients_.span; }
  DeviceSpan buffers() const { return buffers_.span; }
  GradientReducer& reducer() { return *reducer_; }

  /// Copies the updated weights between processes; null if there is one process.
  WeightGather* weight_gather() { return weight_gather_.get(); }

  /// Copies the ranges of `values`, laid out as the gradients, from the replicas whose reducers own
  /// them to the other processes. A collective.
  void gather(DeviceSpan values);
  /// The plan for batches of this shape, compiled at the first.
  nn::Plan& plan_for(const pipeline::Batch& batch);
  /// The batch's input fields, in the plan's order.
  std::vector<std::span<const std::byte>> inputs_of(const pipeline::Batch& batch) const;
  /// To be called after the weights were written.
  void parameters_changed();
  const std::vector<Compilation>& compilations() const { return compilations_; }

 private:
  using Key = std::tuple<std::int64_t, decode::DType>;

  std::unique_ptr<nn::Plan> compile(const pipeline::Batch& batch, decode::DType dtype);

  ReplicaSetup setup_;
  DeviceBuffer gradients_;
  DeviceBuffer buffers_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<WeightGather> weight_gather_;
  std::map<Key, std::unique_ptr<nn::Plan>> plans_;
  std::vector<Compilation> compilations_;
};

}  // namespace millrace::trainer::detail
