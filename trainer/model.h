// Model: what fit() trains: tables of parameters and buffers, start values, a graph.
//
// A GraphModel is compiled by any backend; a model without a graph makes its own plan, for the CPU
// only. A model holds no weights: those are flat buffers of the run's backend.
//
//   GraphModel model("resnet18", build_model("resnet18", {.num_classes = 10}));
//
// Threads: const; compile() is called on each device's own thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "trainer/nn/graph.h"
#include "trainer/nn/plan.h"
#include "trainer/parameters.h"

namespace millrace::trainer {

/// Returns the graph with layers tied, by nn::tie_weights().
using TieHook = std::function<nn::Graph(const nn::Graph&)>;

class Model {
 public:
  virtual ~Model() = default;

  virtual const std::string& name() const = 0;
  virtual const ParameterTable& parameters() const = 0;
  /// PyTorch's buffers: running statistics. May be empty.
  virtual const ParameterTable& buffers() const = 0;
  /// Start values, a function of `seed` alone.
  virtual void initialise(std::uint64_t seed, std::span<float> parameters,
                          std::span<float> buffers) const = 0;
  /// What a backend compiles; null for a model that has only compile().
  virtual const nn::Graph* graph() const { return nullptr; }
  /// A plan for the CPU, over the host's memory. Default: nn::compile() of the graph. Throws: as
  /// nn::compile(); Unsupported without a graph.
  virtual std::unique_ptr<nn::Plan> compile(const nn::PlanOptions& options,
                                            const nn::PlanMemory& memory) const;
  /// The model with its layers tied. Throws: InvalidArgument for a model that has no graph.
  virtual std::unique_ptr<Model> tied(const TieHook& hook) const;
};

/// Whether the model has running statistics.
bool has_batch_norms(const Model& model);

class GraphModel final : public Model {
 public:
  GraphModel(std::string name, nn::Graph graph)
      : name_(std::move(name)), graph_(std::move(graph)) {}

  const nn::Graph* graph() const override { return &graph_; }
  const std::string& name() const override { return name_; }
  const ParameterTable& parameters() const override { return graph_.parameters(); }
  const ParameterTable& buffers() const override { return graph_.buffers(); }
  void initialise(std::uint64_t seed, std::span<float> parameters,
                  std::span<float> buffers) const override {
    graph_.initialise(seed, parameters, buffers);
  }
  std::unique_ptr<Model> tied(const TieHook& hook) const override {
    return std::make_unique<GraphModel>(name_, hook(graph_));
  }

 private:
  std::string name_;
  nn::Graph graph_;
};

}  // namespace millrace::trainer
