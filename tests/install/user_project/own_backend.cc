// A backend of one's own: the CPU's memory and steps, with a count of what is asked of them.
// Whatever is done to a run's flat buffers goes through it; a device's backend has its own memory
// here, and steps that are programs of its own.
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/trainer/composed_backend.h"
#include "small_run.h"

namespace mr = millrace::trainer;

struct Counts {
  std::atomic<int> replicas = 0;
  std::atomic<int> batches = 0;
  std::atomic<int> updates = 0;
};

class CountingStep final : public mr::ReplicaStep {
 public:
  CountingStep(std::unique_ptr<mr::ReplicaStep> inner, Counts& counts)
      : inner_(std::move(inner)), counts_(counts) {}

  void add(const mr::MicroBatch& micro) override {
    ++counts_.batches;
    inner_->add(micro);
  }
  void apply(const mr::StepNumbers& numbers) override {
    ++counts_.updates;
    inner_->apply(numbers);
  }
  mr::StepOutcome outcome() override { return inner_->outcome(); }
  void await_weights() override { inner_->await_weights(); }
  void discard() override { inner_->discard(); }
  bool is_intact() const override { return inner_->is_intact(); }

 private:
  std::unique_ptr<mr::ReplicaStep> inner_;
  Counts& counts_;
};

class CountingReplica final : public mr::BackendReplica {
 public:
  CountingReplica(std::unique_ptr<mr::BackendReplica> inner, Counts& counts)
      : inner_(std::move(inner)), counts_(counts) {}

  std::unique_ptr<mr::ReplicaStep> make_step(const mr::StepSetup& setup) override {
    return std::make_unique<CountingStep>(inner_->make_step(setup), counts_);
  }
  std::unique_ptr<mr::EvaluationStep> make_evaluation() override {
    return inner_->make_evaluation();
  }
  std::unique_ptr<mr::PredictionStep> make_prediction() override {
    return inner_->make_prediction();
  }
  void weights_changed() override { inner_->weights_changed(); }
  std::vector<mr::CompileEvent> take_compilations() override { return inner_->take_compilations(); }

 private:
  std::unique_ptr<mr::BackendReplica> inner_;
  Counts& counts_;
};

class CountingBackend final : public mr::Backend {
 public:
  const std::string& name() const override { return name_; }
  mr::DeviceBuffer allocate(std::size_t floats) override { return inner_->allocate(floats); }
  void write(std::span<const float> from, mr::DeviceSpan to) override { inner_->write(from, to); }
  void read(mr::DeviceSpan from, std::span<float> to) override { inner_->read(from, to); }
  void copy(mr::DeviceSpan from, mr::DeviceSpan to) override { inner_->copy(from, to); }
  void swap(mr::DeviceSpan a, mr::DeviceSpan b) override { inner_->swap(a, b); }
  std::unique_ptr<mr::BackendReplica> make_replica(const mr::ReplicaSetup& setup) override {
    ++counts.replicas;
    return std::make_unique<CountingReplica>(inner_->make_replica(setup), counts);
  }

  Counts counts;

 private:
  std::string name_ = "counting";
  std::unique_ptr<mr::Backend> inner_ = mr::make_cpu_backend();
};

int main() {
  const mr::TrainOptions options{.epochs = 2,
                                 .optimizer = {.rule = mr::Sgd{.lr = 0.1, .momentum = 0}}};
  CountingBackend backend;
  const auto losses = small_run(options, &backend);
  const Counts& counts = backend.counts;
  std::printf("own backend: %d replicas, %d batches, %d updates\n", counts.replicas.load(),
              counts.batches.load(), counts.updates.load());
  const int steps = 2 * 2 * static_cast<int>(Points::kSteps);  // of two epochs, on two devices
  const bool counted = counts.replicas == 2 && counts.batches == steps && counts.updates == steps;
  return counted && losses == small_run(options) ? 0 : 1;
}
