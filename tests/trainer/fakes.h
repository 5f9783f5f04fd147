// A model, an input and threads of a few lines each, for tests of the loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/feed.h"
#include "trainer/fit.h"
#include "trainer/model.h"
#include "trainer/objective.h"
#include "trainer/observer.h"
#include "trainer/replicas.h"

namespace millrace::testing {

/// y = W x + b, in float32; its one buffer is the running mean of the inputs' first feature.
class LinearModel final : public trainer::Model {
 public:
  LinearModel(std::int64_t features, std::int64_t classes);

  const std::string& name() const override { return name_; }
  const trainer::ParameterTable& parameters() const override { return parameters_; }
  const trainer::ParameterTable& buffers() const override { return buffers_; }
  void initialise(std::uint64_t seed, std::span<float> parameters,
                  std::span<float> buffers) const override;
  std::unique_ptr<trainer::nn::Plan> compile(const trainer::nn::PlanOptions& options,
                                             const trainer::nn::PlanMemory& memory) const override;

 private:
  std::string name_ = "linear";
  trainer::ParameterTable parameters_;
  trainer::ParameterTable buffers_;
};

struct FakeSample {
  std::vector<float> features;
  std::int64_t label = 0;
};

/// Samples of `classes` classes around class centres, a function of `seed`.
std::vector<FakeSample> make_samples(std::size_t count, std::int64_t features, std::int64_t classes,
                                     std::uint64_t seed);

/// Batches from memory: batch b of an epoch goes to replica b mod world; the order of the samples
/// rotates with the epoch.
class MemoryFeed final : public trainer::Feed {
 public:
  MemoryFeed(std::vector<FakeSample> samples, std::int64_t batch_size, int world);

  std::unique_ptr<trainer::EpochFeed> open(std::uint32_t epoch,
                                           const pipeline::Position* from) override;
  std::int64_t batch_size() const override { return batch_size_; }
  std::int64_t steps_per_epoch() const override;

  /// Called before each batch; may throw, or change the batch's number.
  std::function<void(int replica, std::int64_t step)> before_batch;
  /// In the last round a replica without a sample left gets the end, not a masked batch.
  bool is_unequal = false;

 private:
  std::vector<FakeSample> samples_;
  std::int64_t batch_size_;
  int world_;
};

/// Plain threads.
class LocalThreads final : public trainer::ReplicaThreads {
 public:
  explicit LocalThreads(int size) : size_(size) {}
  int size() const override { return size_; }
  std::string name(int replica) const override { return "cpu:" + std::to_string(replica); }
  void run(const std::function<void(int)>& work) override;

 private:
  int size_;
};

/// Records all events.
class Recorder final : public trainer::Observer {
 public:
  void on_step(const trainer::StepEvent& event) override { losses.push_back(event.loss); }
  void on_epoch_end(const trainer::EpochEvent& event) override { epochs.push_back(event); }
  void on_checkpoint(const std::string& path) override { checkpoints.push_back(path); }
  std::vector<double> losses;
  std::vector<trainer::EpochEvent> epochs;
  std::vector<std::string> checkpoints;
};

struct LinearRunOptions {
  int world = 1;
  std::int64_t batch_size = 16;  ///< per replica
  std::size_t samples = 200;
  std::size_t val_samples = 101;
};

/// A linear model, its samples, and a run of it.
struct LinearRun {
  static constexpr std::int64_t kFeatures = 20;
  static constexpr std::int64_t kClasses = 4;

  explicit LinearRun(const LinearRunOptions& options);
  LinearRun(const LinearRun&) = delete;
  LinearRun& operator=(const LinearRun&) = delete;

  /// `more` are called before the recorder.
  trainer::FitResult run(const trainer::TrainOptions& options,
                         const std::vector<trainer::Observer*>& more = {});

  LinearModel model{kFeatures, kClasses};
  trainer::LossObjective objective{{.inputs = {"x"}, .heads = {trainer::Head{}}}};
  MemoryFeed train;
  MemoryFeed val;
  trainer::Feed* train_feed = &train;  ///< may be replaced
  trainer::Feed* val_feed = &val;      ///< likewise
  LocalThreads devices;
  Recorder recorder;
};

/// A checkpoint's weights, then its buffers.
std::vector<float> weights_in(const std::string& checkpoint, const trainer::Model& model);

/// Expects equal losses of two runs, but for the order of rounding.
void expect_one_curve(const std::vector<double>& expected, const std::vector<double>& losses);

}  // namespace millrace::testing
