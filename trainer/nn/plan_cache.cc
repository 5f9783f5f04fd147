#include "trainer/nn/plan_cache.h"

namespace millrace::trainer::nn {
namespace {

std::string describe(const Graph& graph, const PlanOptions& options) {
  return std::to_string(options.batch_size) + " x " +
         shape_text(graph.node(graph.inputs().front()).shape) +
         (options.precision == Precision::kBFloat16 ? " bf16" : " fp32");
}

}  // namespace

PlanCache::PlanCache(const Graph& graph, const PlanMemory& memory)
    : graph_(graph), memory_(memory) {}

Plan& PlanCache::get(const PlanOptions& options) {
  auto& plan = plans_[{options.batch_size, options.precision, options.input_dtype}];
  if (!plan) {
    const auto start = std::chrono::steady_clock::now();
    plan = compile(graph_, options, memory_);
    compilations_.push_back({describe(graph_, options), std::chrono::steady_clock::now() - start,
                             plan->activation_bytes()});
  }
  return *plan;
}

void PlanCache::parameters_changed() {
  for (auto& [key, plan] : plans_) plan->parameters_changed();
}

}  // namespace millrace::trainer::nn
