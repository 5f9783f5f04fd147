// A run that is over in a moment: points around two centres, told apart by a linear layer on two
// devices.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "millrace/device/device.h"
#include "millrace/trainer/feed.h"
#include "millrace/trainer/fit.h"
#include "millrace/trainer/model.h"
#include "millrace/trainer/nn/graph.h"
#include "millrace/trainer/objective.h"
#include "millrace/trainer/replicas.h"

/// Batches from memory: eight steps of eight points per device.
class Points final : public millrace::trainer::Feed {
 public:
  static constexpr std::int64_t kSteps = 8;
  static constexpr std::int64_t kBatch = 8;

  std::unique_ptr<millrace::trainer::EpochFeed> open(std::uint32_t epoch,
                                                     const millrace::pipeline::Position*) override {
    return std::make_unique<Epoch>(epoch);
  }
  std::int64_t steps_per_epoch() const override { return kSteps; }

 private:
  struct Values {
    std::vector<float> points;  // (N, 2)
    std::vector<std::int64_t> labels;
    std::vector<float> targets;  // (N, 2): 1 at the label
  };

  class Epoch final : public millrace::trainer::EpochFeed {
   public:
    explicit Epoch(std::uint32_t epoch) : epoch_(epoch) {}

    bool next(int replica, millrace::pipeline::Batch& batch) override {
      std::int64_t& step = steps_[static_cast<std::size_t>(replica)];
      if (step == kSteps) return false;
      const std::int64_t index = 2 * step++ + replica;
      auto values = std::make_shared<Values>();
      for (std::int64_t i = 0; i < kBatch; ++i) {
        const auto place = static_cast<float>((index * kBatch + i) * 7 % 10) / 10.0F;
        const float side = i % 2 == 0 ? 1.0F : -1.0F;
        values->points.insert(values->points.end(), {side + place, place - side});
        values->labels.push_back(i % 2);
        values->targets.insert(values->targets.end(),
                               {i % 2 == 0 ? 1.0F : 0.0F, i % 2 == 0 ? 0.0F : 1.0F});
      }
      batch = {};
      batch.index = index;
      batch.epoch = epoch_;
      batch.size = batch.num_valid = kBatch;
      batch.valid.assign(kBatch, 1);
      batch.keys.assign(kBatch, "point");
      batch.fields = {{"x",
                       {millrace::decode::DType::kFloat32, {kBatch, 2}},
                       std::as_writable_bytes(std::span(values->points))},
                      {"label",
                       {millrace::decode::DType::kInt64, {kBatch}},
                       std::as_writable_bytes(std::span(values->labels))},
                      {"target",
                       {millrace::decode::DType::kFloat32, {kBatch, 2}},
                       std::as_writable_bytes(std::span(values->targets))}};
      batch.owner = values;
      return true;
    }
    void stop() override {}

   private:
    std::uint32_t epoch_;
    std::vector<std::int64_t> steps_ = {0, 0};
  };
};

inline millrace::trainer::nn::Graph linear_layer() {
  millrace::trainer::nn::GraphBuilder builder;
  const auto x = builder.input("x", {2});
  builder.output("logits", builder.linear("fc", x, {.features = 2}));
  return builder.build();
}

/// The mean loss of each epoch.
inline std::vector<double> small_run(const millrace::trainer::TrainOptions& options,
                                     millrace::trainer::Backend* backend = nullptr,
                                     millrace::trainer::nn::Graph graph = linear_layer(),
                                     const millrace::trainer::Head& head = {}) {
  const auto devices = millrace::device::DeviceSet::cpu(2);
  millrace::trainer::DeviceThreads threads(devices);
  const millrace::trainer::GraphModel model("linear", std::move(graph));
  const millrace::trainer::LossObjective objective({.inputs = {"x"}, .heads = {head}});
  Points feed;
  std::vector<double> losses;
  for (const auto& epoch : millrace::trainer::fit({.model = model,
                           .objective = objective,
                           .train = feed,
                           .devices = threads,
                           .backend = backend},
                                                  options)
                               .epochs) {
    losses.push_back(epoch.train.front().second);
  }
  return losses;
}
