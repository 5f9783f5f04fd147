// ReferenceBackend: everything in float64 and plain loops, to compare others with. Its memory holds
// doubles; its handles may not be dereferenced.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/trainer/address_book.h"
#include "trainer/composed_backend.h"
#include "trainer/nn/graph.h"
#include "trainer/nn/plan.h"

namespace millrace::testing {

class ReferenceBackend final : public trainer::ComposedBackend {
 public:
  const std::string& name() const override { return name_; }
  trainer::DeviceBuffer allocate(std::size_t floats) override;
  void write(std::span<const float> from, trainer::DeviceSpan to) override;
  void read(trainer::DeviceSpan from, std::span<float> to) override;
  void copy(trainer::DeviceSpan from, trainer::DeviceSpan to) override;
  void swap(trainer::DeviceSpan a, trainer::DeviceSpan b) override;
  void set_zero(trainer::DeviceSpan values) override;
  void add(trainer::DeviceSpan into, trainer::DeviceSpan values) override;
  void average(trainer::DeviceSpan values, double count, trainer::Collectives& group) override;
  void all_gather(trainer::DeviceSpan values, trainer::Collectives& group) override;
  std::unique_ptr<trainer::GradientReducer> make_reducer(
      trainer::DeviceSpan gradients, trainer::Collectives& group,
      const trainer::GradientReducerOptions& options) override;
  std::unique_ptr<trainer::nn::Plan> compile(const trainer::Model& model,
                                             const trainer::nn::PlanOptions& options,
                                             const trainer::PlanBuffers& buffers) override;
  std::unique_ptr<trainer::Updater> make_updater(const trainer::UpdaterSetup& setup) override;

 private:
  struct Storage {
    std::shared_ptr<std::vector<double>> values;
    std::span<double> part(std::size_t offset, std::size_t count) const {
      return std::span(*values).subspan(offset, count);
    }
  };

  std::string name_ = "reference";
  AddressBook<Storage> book_;
};

/// As nn::PlanMemory, in float64.
struct ReferenceMemory {
  std::span<const double> parameters;
  std::span<double> gradients;
  std::span<double> buffers;
};

/// Has the layers of LeNet and the ResNets. Throws: Unsupported, naming the layer, for others.
std::unique_ptr<trainer::nn::Plan> compile_reference(const trainer::nn::Graph& graph,
                                                     const trainer::nn::PlanOptions& options,
                                                     const ReferenceMemory& memory);

}  // namespace millrace::testing
