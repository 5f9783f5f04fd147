// The requirements of every Backend, by what its steps do; and those of the parts of every
// ComposedBackend (composed_conformance.h). To test one, in a file of its own:
//
//   INSTANTIATE_TEST_SUITE_P(
//       Mine, BackendConformance,
//       ::testing::Values(BackendCase{"mine", [] { return std::make_unique<MyBackend>(); }}),
//       backend_case_name);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/component/component_text.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/fakes.h"
#include "tests/trainer/step_bench.h"
#include "trainer/checkpoint.h"
#include "trainer/composed_backend.h"
#include "trainer/evaluate.h"
#include "trainer/fit.h"
#include "trainer/models/models.h"
#include "trainer/predict.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/lars.h"

namespace millrace::trainer {

struct BackendCase {
  std::string name;
  std::function<std::unique_ptr<Backend>()> make;
};

inline void PrintTo(const BackendCase& one, std::ostream* out) { *out << one.name; }
inline std::string backend_case_name(const ::testing::TestParamInfo<BackendCase>& info) {
  return info.param.name;
}

inline void expect_near(const std::vector<float>& expected, const std::vector<float>& found,
                        double tolerance, const std::string& what) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(expected[i], found[i], tolerance) << what << " at " << i;
}

class BackendConformance : public ::testing::TestWithParam<BackendCase> {
 protected:
  std::vector<float> read(DeviceSpan span) { return values_in(*backend_, span); }
  DeviceBuffer upload(const std::vector<float>& values) { return buffer_of(*backend_, values); }

  std::unique_ptr<Backend> backend_ = GetParam().make();
};

TEST_P(BackendConformance, MemoryStartsAsZerosAndIsWrittenInParts) {
  const DeviceBuffer buffer = backend_->allocate(40);
  EXPECT_EQ(std::vector<float>(40, 0.0F), read(buffer.span));
  const std::vector<float> part{1.0F, -2.5F, 3.0F};
  backend_->write(part, buffer.span.subspan(16, 3));
  std::vector<float> expected(40, 0.0F);
  std::ranges::copy(part, expected.begin() + 16);
  EXPECT_EQ(expected, read(buffer.span));
  EXPECT_EQ(part, read(buffer.span.subspan(16, 3)));
  EXPECT_TRUE(backend_->allocate(0).span.empty());
}

TEST_P(BackendConformance, CopiesAndSwapsParts) {
  const DeviceBuffer a = upload({1, 2, 3, 4, 5});
  const DeviceBuffer b = upload({10, 20, 30, 40, 50});
  backend_->swap(a.span.subspan(0, 2), b.span.subspan(0, 2));
  EXPECT_EQ((std::vector<float>{10, 20, 3, 4, 5}), read(a.span));
  EXPECT_EQ((std::vector<float>{1, 2, 30, 40, 50}), read(b.span));
  backend_->copy(b.span.subspan(2, 2), a.span.subspan(3, 2));
  EXPECT_EQ((std::vector<float>{10, 20, 3, 30, 40}), read(a.span));
}

/// What a step is asked for, beside its numbers.
struct StepCase {
  std::string name;
  StepBenchOptions options;
};

inline std::vector<StepCase> step_cases() {
  const OptimizerOptions momentum{.rule = Sgd{.momentum = 0.9F}};
  return {
      {"momentum", {.optimizer = momentum}},
      {"decay and Nesterov",
       {.optimizer = {.rule = Sgd{.momentum = 0.9F,
                                  .nesterov = true,
                                  .weight_decay = 0.05F,
                                  .groups = {{.parameters = "norms-biases", .weight_decay = 0.0F},
                                             {.parameters = "fc.", .until = 3, .falls = true}}}}}},
      {"adamw", {.optimizer = {.rule = AdamW{.eps = 0.1F, .weight_decay = 0.05F}}}},
      {"lars", {.optimizer = {.rule = Lars{.momentum = 0.9F, .trust = 0.1F}}}},
      {"clipped by norm", {.optimizer = momentum, .clip = {.norm = 0.1}}},
      {"clipped by value", {.optimizer = momentum, .clip = {.norm = 0.0, .value = 0.02F}}},
      {"accumulated", {.optimizer = momentum, .clip = {.norm = 0.5}, .accumulate = 2}}};
}

/// Steps with masked slots, with a rank that has no batch, and an accumulated one that ends early.
/// Returns the steps' outcomes.
inline std::vector<StepOutcome> take_steps(StepBench& bench, const StepBenchOptions& options) {
  const auto world = static_cast<std::size_t>(options.world);
  std::vector<StepOutcome> outcomes;
  int number = 0;
  for (int step = 1; step <= 4; ++step) {
    std::vector<pipeline::Batch> batches;
    for (std::int64_t i = 0; i < 2 * options.world; ++i)
      batches.push_back(conformance_batch(number++, i % 2 == 1 ? 3 : 4));
    std::vector<StepBench::Round> rounds;
    const std::int64_t count = step == 4 ? 1 : options.accumulate;
    for (std::int64_t i = 0; i < count; ++i) {
      StepBench::Round round;
      for (std::size_t r = 0; r < world; ++r)
        round.push_back(&batches[static_cast<std::size_t>(i) * world + r]);
      if (step == 3 && world > 1) round.back() = nullptr;
      rounds.push_back(round);
    }
    bench.step(rounds,
               StepNumbers{.lr = 0.04F / static_cast<float>(step), .step = step, .base_lr = 0.04F});
    if (bench.step_of(0).runs_ahead() && step == 1) continue;
    outcomes.push_back(bench.outcomes().front());
  }
  if (outcomes.size() < 4) outcomes.push_back(bench.outcomes().front());
  return outcomes;
}

/// Against the CPU's steps, whose parts' parity tests compare them with PyTorch's.
TEST_P(BackendConformance, StepsDoWhatTheCpusDo) {
  const auto cpu = make_cpu_backend();
  for (const StepCase& one : step_cases()) {
    for (const int world : {1, 2}) {
      StepBenchOptions options = one.options;
      options.world = world;
      StepBench oracle(*cpu, options);
      StepBench bench(*backend_, options);
      const auto expected = take_steps(oracle, options);
      const auto found = take_steps(bench, options);
      const std::string what = one.name + " on " + std::to_string(world);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(found[i].is_finite) << what;
        EXPECT_EQ(expected[i].samples, found[i].samples) << what;
        ASSERT_EQ(expected[i].sums.size(), found[i].sums.size());
        for (std::size_t k = 0; k < found[i].sums.size(); ++k)
          EXPECT_NEAR(expected[i].sums[k], found[i].sums[k], 1e-3) << what << ", step " << i;
      }
      const auto wanted = oracle.values();
      const auto values = bench.values();
      ASSERT_EQ(wanted.size(), values.size());
      for (std::size_t i = 0; i < wanted.size(); ++i)
        expect_near(wanted[i], values[i], 2e-4, what + ", buffer " + std::to_string(i));
    }
  }
}

/// One rank's loss or gradients suffice.
TEST_P(BackendConformance, AStepThatIsNotFiniteChangesNothing) {
  for (const ClipOptions clip :
       {ClipOptions{}, ClipOptions{.norm = 1.0}, ClipOptions{.norm = 0.0, .value = 1.0F}}) {
    StepBench bench(*backend_, {.world = 2, .clip = clip});
    const pipeline::Batch good = conformance_batch(1);
    pipeline::Batch bad = conformance_batch(2);
    bad.fields[0].as<float>()[20] = std::numeric_limits<float>::infinity();
    bench.step({{&good, &good}}, StepNumbers{.lr = 0.1F, .step = 1});
    for (const StepOutcome& one : bench.outcomes()) EXPECT_TRUE(one.is_finite);
    const auto before = bench.values();
    bench.step({{&good, &bad}}, StepNumbers{.lr = 0.1F, .step = 2});
    for (const StepOutcome& one : bench.outcomes()) EXPECT_FALSE(one.is_finite);
    EXPECT_EQ(before, bench.values());
    bench.step({{&good, &good}}, StepNumbers{.lr = 0.1F, .step = 3});
    for (const StepOutcome& one : bench.outcomes()) EXPECT_TRUE(one.is_finite) << "and continues";
    EXPECT_NE(before, bench.values());
    EXPECT_TRUE(bench.step_of(0).is_intact());
  }
}

/// As torch.optim, whose step() is then not called: Adam's means and SGD's dampening go by it.
TEST_P(BackendConformance, ARuleDoesNotCountStepsThatChangeNothing) {
  const pipeline::Batch good = conformance_batch(1);
  const pipeline::Batch masked = conformance_batch(1, 0);
  pipeline::Batch bad = conformance_batch(2);
  bad.fields[0].as<float>()[20] = std::numeric_limits<float>::infinity();
  for (const Rule& rule : {Rule(Adam()), Rule(Sgd{.momentum = 0.9F, .dampening = 0.5F})}) {
    const StepBenchOptions options{.world = 2, .optimizer = {.rule = rule}};
    StepBench bench(*backend_, options);
    StepBench plain(*backend_, options);
    std::int64_t number = 0;
    std::int64_t skipped = 0;
    const std::vector<const pipeline::Batch*> seconds = {&bad, &good, &masked, &bad, &good};
    for (const pipeline::Batch* second : seconds) {
      const pipeline::Batch* first = second == &masked ? &masked : &good;
      const StepNumbers numbers{
          .lr = 0.01F, .step = ++number, .skipped = bench.step_of(0).runs_ahead() ? 0 : skipped};
      bench.step({{first, second}}, numbers);
      const bool changes = bench.outcomes()[0].changes();
      EXPECT_EQ(second == &good, changes);
      if (!changes) ++skipped;
      if (!changes) continue;
      plain.step({{first, second}}, StepNumbers{.lr = 0.01F, .step = number - skipped});
      plain.outcomes();
    }
    EXPECT_EQ(3, skipped);
    EXPECT_EQ(plain.values(), bench.values());
  }
}

TEST_P(BackendConformance, AStepWithoutASampleChangesNothing) {
  StepBench bench(*backend_, {.world = 2});
  const pipeline::Batch masked = conformance_batch(1, 0);
  const auto before = bench.values();
  bench.step({{&masked, nullptr}}, StepNumbers{.lr = 0.1F, .step = 1});
  const auto outcomes = bench.outcomes();
  EXPECT_TRUE(outcomes[1].is_finite);
  EXPECT_EQ(0.0, outcomes[1].samples);
  EXPECT_EQ(before, bench.values());
}

/// As at a stop, in the middle of an accumulated step.
TEST_P(BackendConformance, WhatIsDiscardedLeavesNoTrace) {
  const StepBenchOptions options{.world = 2, .accumulate = 2};
  StepBench plain(*backend_, options);
  StepBench bench(*backend_, options);
  const pipeline::Batch a = conformance_batch(1);
  const pipeline::Batch b = conformance_batch(2);
  bench.step({{&b, &b}}, std::nullopt);
  bench.discard();
  EXPECT_EQ(plain.values(), bench.values());
  for (StepBench* one : {&plain, &bench}) {
    one->step({{&a, &b}, {&b, &a}}, StepNumbers{.lr = 0.1F, .step = 1});
    one->outcomes();
  }
  bench.step({{&b, nullptr}}, std::nullopt);
  bench.discard();
  EXPECT_EQ(plain.values(), bench.values());
}

TEST_P(BackendConformance, EvaluatesAndPredictsAsTheCpuDoes) {
  const auto cpu = make_cpu_backend();
  const StepBenchOptions options{};
  StepBench oracle(*cpu, options);
  StepBench bench(*backend_, options);
  const pipeline::Batch a = conformance_batch(1);
  const pipeline::Batch b = conformance_batch(2, 3);
  std::vector<EvaluationOutcome> whole;
  std::vector<EvaluationOutcome> broken;
  std::vector<std::vector<float>> outputs;
  for (StepBench* one : {&oracle, &bench}) {
    for (int step = 1; step <= 2; ++step) {  // before and after the weights change
      one->step({{&a}}, StepNumbers{.lr = 0.1F, .step = step});
      one->outcomes();
      one->values();
    }
    const auto evaluation = one->replica(0).make_evaluation();
    evaluation->add(a);
    evaluation->add(b);
    whole.push_back(evaluation->outcome());
    const auto prediction = one->replica(0).make_prediction();
    const auto views = prediction->outputs(b);
    ASSERT_EQ(1U, views.size());
    EXPECT_EQ((std::vector<std::int64_t>{4, 5}), views[0].shape);
    outputs.emplace_back(views[0].data.begin(), views[0].data.end());
    one->spoil("fc.bias");
    evaluation->add(b);
    broken.push_back(evaluation->outcome());
  }
  EXPECT_EQ(7.0, whole[1].samples);
  EXPECT_EQ(0, whole[1].non_finite);
  for (std::size_t k = 0; k < whole[0].sums.size(); ++k)
    EXPECT_NEAR(whole[0].sums[k], whole[1].sums[k], 1e-3);
  EXPECT_EQ(3, broken[1].non_finite) << "the valid ones";
  EXPECT_TRUE(std::isnan(broken[1].sums.front()));
  expect_near(outputs[0], outputs[1], 1e-3, "outputs");
}

/// The host's writes, and other weights by a swap (an EMA in place), reach the next batch.
TEST_P(BackendConformance, WeightsThatTheHostChangesAreUsed) {
  StepBench bench(*backend_, {});
  const pipeline::Batch batch = conformance_batch(1);
  const auto prediction = bench.replica(0).make_prediction();
  const auto values_of = [&] {
    const auto views = prediction->outputs(batch);
    return std::vector<float>(views[0].data.begin(), views[0].data.end());
  };
  const auto first = values_of();
  const std::vector<float> weights = values_in(*backend_, bench.weights());
  const DeviceBuffer other = backend_->allocate(weights.size());
  backend_->swap(other.span, bench.weights());
  bench.replica(0).weights_changed();
  EXPECT_EQ(std::vector<float>(20, 0.0F), values_of());
  backend_->write(weights, bench.weights());
  bench.replica(0).weights_changed();
  EXPECT_EQ(first, values_of());
}

TEST_P(BackendConformance, RefusesRulesThatItCannotFollow) {
  for (const Rule& rule : {Rule(Sgd{.dampening = 0.1F, .nesterov = true}), Rule(Adam{.betas = {}})})
    EXPECT_THROW(StepBench(*backend_, {.optimizer = {.rule = rule}}), Error) << text(rule);
}

/// LeNet on two devices: trained, evaluated with an EMA, saved, resumed, loaded by others.
struct LeNetRun {
  explicit LeNetRun(Backend* of) : backend(of) {}

  static TrainOptions options(const std::string& folder, std::int64_t epochs,
                              const std::string& resume = {}) {
    return {.epochs = epochs,
            .precision = nn::Precision::kFloat32,
            .seed = 3,
            .optimizer = {.rule = Sgd{.lr = 0.05, .momentum = 0.9F}},
            .reducer = {.bucket_floats = 20'000},
            .accumulate = 2,
            .clip = {.norm = 5.0},
            .ema_decay = 0.5,
            .run_folder = folder,
            .resume = resume};
  }
  FitResult fit(const TrainOptions& options, const std::vector<Observer*>& observers = {}) {
    return trainer::fit({.model = model,
                         .objective = objective,
                         .train = train,
                         .validation = &val,
                         .devices = devices,
                         .backend = backend},
                        options, observers);
  }
  FitResult fit(const std::string& folder, std::int64_t epochs, const std::string& resume = {}) {
    return fit(options(folder, epochs, resume));
  }
  EvalInput input() {
    return {.model = model,
            .objective = objective,
            .feed = val,
            .devices = devices,
            .backend = backend};
  }

  Backend* backend;
  GraphModel model{"lenet",
                   build_model("lenet", {.num_classes = 4, .in_channels = 1, .image = 28})};
  LossObjective objective{{.inputs = {"x"}, .heads = {Head{}}}};
  testing::MemoryFeed train{testing::make_samples(48, 784, 4, 1), 4, 2};
  testing::MemoryFeed val{testing::make_samples(20, 784, 4, 2), 4, 2};
  testing::LocalThreads devices{2};
};

inline std::vector<float> weights_of_checkpoint(const std::string& folder, const Model& model) {
  std::vector<float> weights(model.parameters().padded_size());
  std::vector<float> buffers(model.buffers().padded_size());
  load_checkpoint_model(folder, model.name(),
                        {{.table = &model.parameters(), .values = weights},
                         {.table = &model.buffers(), .values = buffers}});
  return weights;
}

TEST_P(BackendConformance, TrainsEvaluatesSavesAndResumesAsTheCpuDoes) {
  const testing::TempDir folder;
  LeNetRun cpu(nullptr);
  const FitResult expected = cpu.fit(folder / "cpu", 2);
  LeNetRun run(backend_.get());
  run.fit(folder / "run", 1);
  const FitResult found = run.fit(folder / "run", 2, "auto");
  ASSERT_EQ(1U, found.epochs.size());
  const double loss = *find_value(found.epochs[0].train, "loss");
  EXPECT_LT(loss, *find_value(expected.epochs[0].train, "loss")) << "it learns";
  EXPECT_NEAR(*find_value(expected.epochs[1].train, "loss"), loss, 1e-4);
  EXPECT_NEAR(*find_value(expected.epochs[1].val, "loss"), *find_value(found.epochs[0].val, "loss"),
              1e-4);
  expect_near(weights_of_checkpoint(folder / "cpu/checkpoints/last", cpu.model),
              weights_of_checkpoint(folder / "run/checkpoints/last", cpu.model), 1e-4, "weights");

  const EvalOptions options{.precision = nn::Precision::kFloat32,
                            .weights = folder / "run/checkpoints/last"};
  EXPECT_NEAR(*find_value(found.epochs[0].val, "loss"),
              *find_value(evaluate(run.input(), options).values, "loss"), 1e-5);
  std::vector<float> outputs;
  const auto append = [&](const Prediction& one) {
    outputs.insert(outputs.end(), one.outputs[0].begin(), one.outputs[0].end());
  };
  EXPECT_EQ(20, predict(run.input(), options, append));
  std::vector<float> own;
  own.swap(outputs);
  predict(cpu.input(), options, append);
  expect_near(outputs, own, 1e-4, "outputs");
}

}  // namespace millrace::trainer
