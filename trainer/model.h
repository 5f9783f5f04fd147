// Model: what fit() trains, as far as fit() needs to know it: tables, start values, a compiler.
//
// The nn room's graphs come behind this interface through trainer/graph_model.h; a test brings a
// model of ten lines. A model holds no weights: those are flat buffers that the run owns.
//
// Threads: const; compile() is called on each device's own thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "trainer/nn/plan.h"
#include "trainer/parameters.h"

namespace millrace::trainer {

/// Everything a plan reads and writes, flat, of the model's tables' layouts; borrowed, at fixed
/// addresses for as long as the plan lives.
struct ReplicaBuffers {
  std::span<const float> parameters;
  /// The parameters rounded to bf16; empty unless the model wants them.
  std::span<const std::uint16_t> bf16_parameters = {};
  std::span<float> gradients = {};  ///< empty: for evaluation alone
  std::span<float> buffers = {};    ///< running statistics
};

struct CompileRequest {
  std::int64_t batch_size = 1;
  nn::Precision precision = nn::Precision::kBFloat16;
  /// Keys what the plan draws itself (dropout): another one a replica.
  std::uint64_t seed = 0;
  ReplicaBuffers memory;
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const std::string& name() const = 0;
  virtual const ParameterTable& parameters() const = 0;
  /// State that is no parameter: running statistics. May be empty.
  virtual const ParameterTable& buffers() const = 0;
  /// Whether plans of this precision read ReplicaBuffers::bf16_parameters.
  virtual bool wants_bf16_parameters(nn::Precision precision) const = 0;
  /// Start values, a function of `seed` alone.
  virtual void initialise(std::uint64_t seed, std::span<float> parameters,
                          std::span<float> buffers) const = 0;
  virtual std::unique_ptr<nn::Plan> compile(const CompileRequest& request) const = 0;
};

}  // namespace millrace::trainer
