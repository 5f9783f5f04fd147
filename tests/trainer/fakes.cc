#include "tests/trainer/fakes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "trainer/checkpoint.h"
#include "trainer/nn/graph.h"

namespace millrace::testing {
namespace {

class LinearPlan final : public trainer::nn::Plan {
 public:
  LinearPlan(const trainer::nn::PlanOptions& options, const trainer::nn::PlanMemory& memory,
             const trainer::Parameter& weight, const trainer::Parameter& bias)
      : batch_(options.batch_size),
        memory_(memory),
        weight_(weight),
        bias_(bias),
        classes_(weight.shape[0]),
        features_(weight.shape[1]),
        output_(static_cast<std::size_t>(batch_ * classes_)),
        gradient_(output_.size()) {}

  void forward(std::span<const std::span<const std::byte>> inputs, trainer::nn::Mode mode,
               const trainer::nn::ParametersNeeded& needed) override {
    if (needed) needed(0);
    input_ = reinterpret_cast<const float*>(inputs[0].data());
    float mean = 0.0F;
    for (std::int64_t n = 0; n < batch_; ++n) {
      for (std::int64_t c = 0; c < classes_; ++c) output_[at(n, c)] = product(n, c);
      mean += x(n, 0) / static_cast<float>(batch_);
    }
    if (mode == trainer::nn::Mode::kTrain) {
      memory_.buffers[0] = 0.9F * memory_.buffers[0] + 0.1F * mean;
    }
  }
  std::size_t num_outputs() const override { return 1; }
  trainer::nn::OutputView output(std::size_t) override { return {{batch_, classes_}, output_}; }
  trainer::nn::OutputView output_gradient(std::size_t) override {
    return {{batch_, classes_}, gradient_};
  }
  void backward(const std::function<void(std::size_t)>& ready) override {
    std::fill(memory_.gradients.begin(), memory_.gradients.end(), 0.0F);
    for (std::int64_t n = 0; n < batch_; ++n) {
      for (std::int64_t c = 0; c < classes_; ++c) add_gradient(n, c);
    }
    ready(weight_.offset);
    ready(memory_.gradients.size());
  }
  void parameters_changed() override {}
  void set_random_key(const trainer::nn::BatchKey&) override {}
  std::size_t activation_bytes() const override { return 4 * output_.size(); }

 private:
  std::size_t at(std::int64_t n, std::int64_t c) const {
    return static_cast<std::size_t>(n * classes_ + c);
  }
  float x(std::int64_t n, std::int64_t f) const { return input_[n * features_ + f]; }
  std::size_t w(std::int64_t c, std::int64_t f) const {
    return weight_.offset + static_cast<std::size_t>(c * features_ + f);
  }
  float product(std::int64_t n, std::int64_t c) const {
    float sum = memory_.parameters[bias_.offset + static_cast<std::size_t>(c)];
    for (std::int64_t f = 0; f < features_; ++f) sum += memory_.parameters[w(c, f)] * x(n, f);
    return sum;
  }
  void add_gradient(std::int64_t n, std::int64_t c) {
    const float g = gradient_[at(n, c)];
    memory_.gradients[bias_.offset + static_cast<std::size_t>(c)] += g;
    for (std::int64_t f = 0; f < features_; ++f) memory_.gradients[w(c, f)] += g * x(n, f);
  }

  std::int64_t batch_;
  trainer::nn::PlanMemory memory_;
  const trainer::Parameter& weight_;
  const trainer::Parameter& bias_;
  std::int64_t classes_;
  std::int64_t features_;
  std::vector<float> output_;
  std::vector<float> gradient_;
  const float* input_ = nullptr;
};

class MemoryEpoch final : public trainer::EpochFeed {
 public:
  MemoryEpoch(const MemoryFeed& feed, const std::vector<FakeSample>& samples,
              std::int64_t batch_size, int world, std::uint32_t epoch, std::int64_t first)
      : feed_(feed),
        samples_(samples),
        batch_size_(batch_size),
        world_(world),
        epoch_(epoch),
        first_(first),
        steps_(static_cast<std::size_t>(world), 0) {}

  bool next(int replica, pipeline::Batch& batch) override {
    auto& step = steps_[static_cast<std::size_t>(replica)];
    if (stopped_) throw Error(ErrorCode::kCancelled, "the feed was stopped");
    if (feed_.before_batch) feed_.before_batch(replica, step);
    const std::int64_t index = first_ + step * world_ + replica;
    const auto count = static_cast<std::int64_t>(samples_.size());
    const std::int64_t round = (first_ / world_ + step) * world_;
    if ((feed_.is_unequal ? index : round) * batch_size_ >= count) return false;
    fill(index, batch);
    ++step;
    return true;
  }
  void stop() override { stopped_ = true; }
  std::string busiest_stage() const override { return "memory"; }

 private:
  struct Buffers {
    std::vector<float> features;
    std::vector<std::int64_t> labels;
  };

  const FakeSample& sample(std::int64_t slot) const {
    const auto count = static_cast<std::int64_t>(samples_.size());
    const std::int64_t place = (slot + 7 * static_cast<std::int64_t>(epoch_)) % count;
    return samples_[static_cast<std::size_t>(place)];
  }

  void fill(std::int64_t index, pipeline::Batch& batch) {
    const auto count = static_cast<std::int64_t>(samples_.size());
    const auto width = static_cast<std::int64_t>(samples_[0].features.size());
    auto buffers = std::make_shared<Buffers>();
    batch = {};
    batch.index = index;
    batch.epoch = epoch_;
    batch.size = batch_size_;
    for (std::int64_t i = 0; i < batch_size_; ++i) {
      const std::int64_t slot = index * batch_size_ + i;
      const bool valid = slot < count;
      const FakeSample& from = sample(valid ? slot : 0);
      buffers->features.insert(buffers->features.end(), from.features.begin(), from.features.end());
      buffers->labels.push_back(valid ? from.label : 0);
      batch.valid.push_back(valid ? 1 : 0);
      batch.keys.push_back(valid ? "sample" + std::to_string(slot) : "");
      batch.num_valid += valid ? 1 : 0;
    }
    batch.fields = {{"x",
                     {decode::DType::kFloat32, {batch_size_, width}},
                     std::as_writable_bytes(std::span(buffers->features))},
                    {"label",
                     {decode::DType::kInt64, {batch_size_}},
                     std::as_writable_bytes(std::span(buffers->labels))}};
    batch.owner = buffers;
    auto position = std::make_shared<pipeline::Position>();
    position->epoch = epoch_;
    position->slots = (index + 1) * batch_size_;
    batch.position = position;
  }

  const MemoryFeed& feed_;
  const std::vector<FakeSample>& samples_;
  std::int64_t batch_size_;
  int world_;
  std::uint32_t epoch_;
  std::int64_t first_;
  std::vector<std::int64_t> steps_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace

LinearModel::LinearModel(std::int64_t features, std::int64_t classes) {
  parameters_.add("fc.bias", {classes}, false);
  parameters_.add("fc.weight", {classes, features}, true);
  buffers_.add("fc.running_mean", {1}, false);
}

void LinearModel::initialise(std::uint64_t seed, std::span<float> parameters,
                             std::span<float> buffers) const {
  KeyedRng rng({.seed = seed, .purpose = trainer::nn::kInitialise});
  const trainer::Parameter& weight = parameters_.entries()[1];
  for (std::size_t i = 0; i < weight.size; ++i) parameters[weight.offset + i] = 0.1F * rng.normal();
  std::fill(buffers.begin(), buffers.end(), 0.0F);
}

std::unique_ptr<trainer::nn::Plan> LinearModel::compile(
    const trainer::nn::PlanOptions& options, const trainer::nn::PlanMemory& memory) const {
  return std::make_unique<LinearPlan>(options, memory, parameters_.entries()[1],
                                      parameters_.entries()[0]);
}

std::vector<FakeSample> make_samples(std::size_t count, std::int64_t features, std::int64_t classes,
                                     std::uint64_t seed) {
  std::vector<FakeSample> samples;
  for (std::size_t i = 0; i < count; ++i) {
    KeyedRng rng({.seed = seed, .index = i, .purpose = Purpose::kSynthetic});
    FakeSample sample{{}, static_cast<std::int64_t>(i) % classes};
    for (std::int64_t f = 0; f < features; ++f) {
      const float centre = f % classes == sample.label ? 2.0F : 0.0F;
      sample.features.push_back(centre + rng.normal());
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

MemoryFeed::MemoryFeed(std::vector<FakeSample> samples, std::int64_t batch_size, int world)
    : samples_(std::move(samples)), batch_size_(batch_size), world_(world) {}

std::unique_ptr<trainer::EpochFeed> MemoryFeed::open(std::uint32_t epoch,
                                                     const pipeline::Position* from) {
  return std::make_unique<MemoryEpoch>(*this, samples_, batch_size_, world_, epoch,
                                       from == nullptr ? 0 : from->slots / batch_size_);
}

std::int64_t MemoryFeed::steps_per_epoch() const {
  const std::int64_t round = batch_size_ * world_;
  return (static_cast<std::int64_t>(samples_.size()) + round - 1) / round;
}

void LocalThreads::run(const std::function<void(int)>& work) {
  std::vector<std::jthread> threads;
  for (int r = 0; r < size_; ++r) threads.emplace_back([&work, r] { work(r); });
}

LinearRun::LinearRun(const LinearRunOptions& options)
    : train(make_samples(options.samples, kFeatures, kClasses, 1), options.batch_size,
            options.world),
      val(make_samples(options.val_samples, kFeatures, kClasses, 2), options.batch_size,
          options.world),
      devices(options.world) {}

trainer::FitResult LinearRun::run(const trainer::TrainOptions& options,
                                  const std::vector<trainer::Observer*>& more) {
  std::vector<trainer::Observer*> observers = more;
  observers.push_back(&recorder);
  return trainer::fit({.model = model,
                       .objective = objective,
                       .train = *train_feed,
                       .validation = val_feed,
                       .devices = devices},
                      options, observers);
}

std::vector<float> weights_in(const std::string& checkpoint, const trainer::Model& model) {
  std::vector<float> weights(model.parameters().padded_size());
  std::vector<float> buffers(model.buffers().padded_size());
  trainer::load_checkpoint(checkpoint, model.name(),
                           {.model = {{.table = &model.parameters(), .values = weights},
                                      {.table = &model.buffers(), .values = buffers}},
                            .optimizer = {}});
  weights.insert(weights.end(), buffers.begin(), buffers.end());
  return weights;
}

void expect_one_curve(const std::vector<double>& expected, const std::vector<double>& losses) {
  ASSERT_EQ(expected.size(), losses.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(expected[i], losses[i], 1e-5 * std::abs(expected[i]) + 1e-6) << "step " << i;
}

}  // namespace millrace::testing
