// A backend of one's own: the CPU's, with a count of what is asked of it. Whatever is done to a
// run's flat buffers goes through it; a device's backend has its own memory and kernels here.
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "millrace/trainer/backend.h"
#include "small_run.h"

namespace mr = millrace::trainer;

struct Counts {
  std::atomic<int> compilations = 0;
  std::atomic<int> scores = 0;
  std::atomic<int> updates = 0;
};

class CountingUpdater final : public mr::Updater {
 public:
  CountingUpdater(std::unique_ptr<mr::Updater> inner, Counts& counts)
      : inner_(std::move(inner)), counts_(counts) {}

  void measure(double scale, std::span<double> sums) override { inner_->measure(scale, sums); }
  void update(const mr::StepUpdate& step) override {
    ++counts_.updates;
    inner_->update(step);
  }
  bool was_finite() override { return inner_->was_finite(); }

 private:
  std::unique_ptr<mr::Updater> inner_;
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
  void set_zero(mr::DeviceSpan values) override { inner_->set_zero(values); }
  void add(mr::DeviceSpan into, mr::DeviceSpan values) override { inner_->add(into, values); }
  void average(mr::DeviceSpan values, double count, mr::Collectives& group) override {
    inner_->average(values, count, group);
  }
  void all_gather(mr::DeviceSpan values, mr::Collectives& group) override {
    inner_->all_gather(values, group);
  }
  std::unique_ptr<mr::GradientReducer> make_reducer(
      mr::DeviceSpan gradients, mr::Collectives& group,
      const mr::GradientReducerOptions& options) override {
    return inner_->make_reducer(gradients, group, options);
  }
  std::unique_ptr<mr::nn::Plan> compile(const mr::Model& model, const mr::nn::PlanOptions& options,
                                        const mr::PlanBuffers& buffers) override {
    ++counts.compilations;
    return inner_->compile(model, options, buffers);
  }
  void score(const mr::Objective& objective, const mr::ScoreRequest& request,
             std::span<double> sums) override {
    ++counts.scores;
    inner_->score(objective, request, sums);
  }
  std::unique_ptr<mr::Updater> make_updater(const mr::UpdaterSetup& setup) override {
    return std::make_unique<CountingUpdater>(inner_->make_updater(setup), counts);
  }

  Counts counts;

 private:
  std::string name_ = "counting";
  std::unique_ptr<mr::Backend> inner_ = mr::make_cpu_backend();
};

int main() {
  const mr::TrainOptions options{.epochs = 2, .schedule = {.base_lr = 0.1}};
  CountingBackend backend;
  const auto losses = small_run(options, &backend);
  const Counts& counts = backend.counts;
  std::printf("own backend: %d compilations, %d batches, %d updates\n", counts.compilations.load(),
              counts.scores.load(), counts.updates.load());
  const int steps = 2 * 2 * static_cast<int>(Points::kSteps);  // of two epochs, on two devices
  const bool counted =
      counts.compilations == 2 && counts.scores == steps && counts.updates == steps;
  return counted && losses == small_run(options) ? 0 : 1;
}
