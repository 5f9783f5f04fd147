// StepBench: one process's replicas of a small network, whose steps a test takes one by one.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "trainer/backend.h"
#include "trainer/collectives.h"
#include "trainer/nn/graph.h"
#include "trainer/objective.h"
#include "trainer/optimizer.h"

namespace millrace::trainer {

inline std::vector<float> values_in(Backend& backend, DeviceSpan span) {
  std::vector<float> values(span.size());
  backend.read(span, values);
  return values;
}

inline DeviceBuffer buffer_of(Backend& backend, const std::vector<float>& values) {
  DeviceBuffer buffer = backend.allocate(values.size());
  backend.write(values, buffer.span);
  return buffer;
}

/// A small network with every kind of layer that LeNet and ResNets have.
inline nn::Graph conformance_graph() {
  nn::GraphBuilder builder;
  nn::Value x = builder.input("image", {3, 8, 8});
  x = builder.conv2d("conv1", x, {.channels = 16, .kernel = 3, .padding = 1});
  x = builder.relu("relu1", builder.batch_norm("bn1", x));
  nn::Value y = builder.conv2d("conv2", x, {.channels = 16, .kernel = 3, .padding = 1});
  x = builder.relu("relu2", builder.add("add", builder.batch_norm("bn2", y), x));
  x = builder.max_pool2d("pool", x, {.kernel = 2, .stride = 2});
  x = builder.flatten("flatten", builder.adaptive_avg_pool2d("average", x));
  builder.output("logits", builder.linear("fc", x, {.features = 5}));
  return builder.build();
}

/// Four pictures for conformance_graph(), a function of `number`; the slots from `num_valid` on are
/// masked.
inline pipeline::Batch conformance_batch(int number, std::int64_t num_valid = 4) {
  struct Values {
    std::vector<float> images;
    std::vector<std::int64_t> labels;
  };
  auto values = std::make_shared<Values>();
  values->images.resize(4 * 8 * 8 * 3);
  for (std::size_t i = 0; i < values->images.size(); ++i)
    values->images[i] =
        std::cos(0.37F * static_cast<float>(i * i % 1009) + static_cast<float>(number));
  pipeline::Batch batch;
  batch.index = number;
  batch.size = 4;
  batch.num_valid = num_valid;
  for (std::int64_t slot = 0; slot < 4; ++slot) {
    values->labels.push_back((number + 2 * slot) % 5);
    batch.valid.push_back(slot < num_valid ? 1 : 0);
    batch.keys.push_back("picture " + std::to_string(4 * number + slot));
  }
  batch.fields = {
      {"image",
       {decode::DType::kFloat32, {4, 8, 8, 3}},
       std::as_writable_bytes(std::span(values->images))},
      {"label", {decode::DType::kInt64, {4}}, std::as_writable_bytes(std::span(values->labels))}};
  batch.owner = values;
  return batch;
}

struct StepBenchOptions {
  int world = 1;
  OptimizerOptions optimizer = {.rule = Sgd{.momentum = 0.9F}};
  ClipOptions clip = {};
  double ema_decay = 0.75;
  std::int64_t accumulate = 1;
  std::optional<nn::Graph> graph = {};  ///< none: conformance_graph()
  LossObjectiveOptions objective = {};
  nn::Precision precision = nn::Precision::kFloat32;
};

class StepBench {
 public:
  StepBench(Backend& backend, const StepBenchOptions& options)
      : backend_(backend),
        options_(options),
        model_("small", options.graph ? *options.graph : conformance_graph()),
        objective_(options.objective),
        control_(make_thread_collectives(options.world)),
        gradients_(make_thread_collectives(options.world)) {
    std::vector<float> weights(model_.parameters().padded_size());
    std::vector<float> buffers(model_.buffers().padded_size());
    model_.initialise(3, weights, buffers);
    weights_ = buffer_of(backend, weights);
    ema_ = buffer_of(backend, weights);
    const std::size_t count = options.optimizer.rule.make()->state_names().size();
    for (std::size_t i = 0; i < count; ++i) states_.push_back(backend.allocate(weights.size()));
    ranks_.resize(static_cast<std::size_t>(options.world));
    for (Rank& rank : ranks_) rank.buffers = buffer_of(backend, buffers);
    each_rank([this](std::size_t r) { make_rank(r); });
    each_rank([this](std::size_t r) { make_step(r); });
  }

  /// One of the micro-batches of a step: each rank's batch; null: it has none.
  using Round = std::vector<const pipeline::Batch*>;

  /// A step of all ranks, each on its thread; without `numbers` it is only begun.
  void step(const std::vector<Round>& rounds, const std::optional<StepNumbers>& numbers) {
    each_rank([&](std::size_t r) {
      for (const Round& round : rounds) {
        control_[r]->barrier();  // the loop's vote
        ranks_[r].step->add({.batch = round[r],
                             .num_valid = valid_in(round),
                             .batch_size = 4,
                             .random_key = {.first = {.seed = 5, .index = 8 * r}}});
      }
      if (numbers) ranks_[r].step->apply(*numbers);
    });
  }
  /// Of the oldest step, on every rank.
  std::vector<StepOutcome> outcomes() {
    std::vector<StepOutcome> all(ranks_.size());
    each_rank([&](std::size_t r) { all[r] = ranks_[r].step->outcome(); });
    return all;
  }
  void discard() {
    each_rank([&](std::size_t r) { ranks_[r].step->discard(); });
  }
  /// Weights, EMA, the rule's state, every rank's buffers.
  std::vector<std::vector<float>> values() {
    each_rank([&](std::size_t r) { ranks_[r].step->await_weights(); });
    std::vector<std::vector<float>> all{values_in(backend_, weights_.span),
                                        values_in(backend_, ema_.span)};
    for (const DeviceBuffer& state : states_) all.push_back(values_in(backend_, state.span));
    for (const Rank& rank : ranks_) all.push_back(values_in(backend_, rank.buffers.span));
    return all;
  }
  /// Makes a parameter NaN, as the host.
  void spoil(const std::string& parameter) {
    const Parameter& entry = *model_.parameters().find(parameter);
    backend_.write(std::vector<float>(entry.size, std::numeric_limits<float>::quiet_NaN()),
                   weights_.span.subspan(entry.offset, entry.size));
    for (const Rank& rank : ranks_) rank.replica->weights_changed();
  }
  BackendReplica& replica(std::size_t rank) { return *ranks_[rank].replica; }
  ReplicaStep& step_of(std::size_t rank) { return *ranks_[rank].step; }
  DeviceSpan weights() const { return weights_.span; }
  const GraphModel& model() const { return model_; }
  const LossObjective& objective() const { return objective_; }

 private:
  struct Rank {
    DeviceBuffer buffers;
    std::unique_ptr<StepClock> clock;
    std::unique_ptr<BackendReplica> replica;
    std::unique_ptr<ReplicaStep> step;
  };

  /// Throws what one of them threw.
  void each_rank(const std::function<void(std::size_t)>& work) {
    std::vector<std::exception_ptr> faults(ranks_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        threads.emplace_back([&, r] {
          try {
            work(r);
          } catch (...) {
            faults[r] = std::current_exception();
            control_[r]->abort("a rank failed");
            gradients_[r]->abort("a rank failed");
          }
        });
      }
    }
    for (const std::exception_ptr& fault : faults)
      if (fault) std::rethrow_exception(fault);
  }

  static double valid_in(const Round& round) {
    double sum = 0;
    for (const pipeline::Batch* batch : round)
      if (batch != nullptr) sum += static_cast<double>(batch->num_valid);
    return sum;
  }

  void make_rank(std::size_t r) {
    Rank& rank = ranks_[r];
    rank.clock = std::make_unique<StepClock>(std::vector<const Collectives*>{control_[r].get()});
    rank.replica = backend_.make_replica({.device = static_cast<int>(r),
                                          .model = model_,
                                          .objective = objective_,
                                          .precision = options_.precision,
                                          .weights = weights_.span,
                                          .buffers = rank.buffers.span,
                                          .control = *control_[r]});
  }

  void make_step(std::size_t r) {
    Rank& rank = ranks_[r];
    std::vector<DeviceSpan> states;
    for (const DeviceBuffer& state : states_) states.push_back(state.span);
    rank.step = rank.replica->make_step({.optimizer = options_.optimizer,
                                         .clip = options_.clip,
                                         .ema_decay = options_.ema_decay,
                                         .accumulate = options_.accumulate,
                                         .reducer = {.bucket_floats = 1000},
                                         .states = states,
                                         .ema = ema_.span,
                                         .gradient_group = *gradients_[r],
                                         .clock = *rank.clock});
  }

  Backend& backend_;
  StepBenchOptions options_;
  GraphModel model_;
  LossObjective objective_;
  std::vector<std::unique_ptr<Collectives>> control_;
  std::vector<std::unique_ptr<Collectives>> gradients_;
  DeviceBuffer weights_;
  DeviceBuffer ema_;
  std::vector<DeviceBuffer> states_;
  std::vector<Rank> ranks_;
};

}  // namespace millrace::trainer
