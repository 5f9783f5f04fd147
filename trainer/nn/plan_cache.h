// PlanCache: the plans of one replica, and how often and how long compiling took.
//
// Every new combination of batch size, precision and input type compiles once. A run whose shapes
// change compiles again and again; the counts make that visible ("compiled 3 times in 11 steps").
//
// Threads: the device's own thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "trainer/nn/plan.h"

namespace millrace::trainer::nn {

/// One compilation, for the metrics report.
struct Compilation {
  std::string shape;  ///< "128 x (3, 32, 32) bf16"
  std::chrono::duration<double> seconds{0};
  std::size_t activation_bytes = 0;
};

class PlanCache {
 public:
  /// Lifetime: `graph` and the buffers outlive the cache.
  PlanCache(const Graph& graph, const PlanMemory& memory);

  /// The plan for `options`, compiled at the first call. Lifetime: the cache's.
  Plan& get(const PlanOptions& options);
  /// Passes it on to every plan.
  void parameters_changed();
  /// In the order in which they happened.
  const std::vector<Compilation>& compilations() const { return compilations_; }

 private:
  using Key = std::tuple<std::int64_t, Precision, decode::DType>;

  const Graph& graph_;
  PlanMemory memory_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  std::vector<Compilation> compilations_;
};

}  // namespace millrace::trainer::nn
