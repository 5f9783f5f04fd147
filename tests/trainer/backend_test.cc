// All backends in the suite of all; and tests of single ones.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/trainer/backend_conformance.h"
#include "tests/trainer/composed_conformance.h"
#include "tests/trainer/fused_backend.h"
#include "tests/trainer/reference_backend.h"
#include "tests/trainer/shadow_backend.h"
#include "trainer/composed_backend.h"
#include "trainer/nn/tie.h"

namespace millrace::trainer {
namespace {

using testing::FusedBackend;
using testing::ReferenceBackend;
using testing::ShadowBackend;

template <typename Case, typename Made>
Case case_of(const std::string& name) {
  return {name, [] { return std::make_unique<Made>(); }};
}

INSTANTIATE_TEST_SUITE_P(All, BackendConformance,
                         ::testing::Values(BackendCase{"Cpu", make_cpu_backend},
                                           case_of<BackendCase, ShadowBackend>("Shadow"),
                                           case_of<BackendCase, ReferenceBackend>("Reference"),
                                           case_of<BackendCase, FusedBackend>("Fused")),
                         backend_case_name);
INSTANTIATE_TEST_SUITE_P(All, ComposedConformance,
                         ::testing::Values(ComposedCase{"Cpu", make_cpu_backend},
                                           case_of<ComposedCase, ShadowBackend>("Shadow"),
                                           case_of<ComposedCase, ReferenceBackend>("Reference")),
                         composed_case_name);

TEST(ShadowBackend, EndsWhoeverLooksPastIt) {
  ShadowBackend backend;
  const DeviceBuffer buffer = backend.allocate(16);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto look = [&] { return *reinterpret_cast<volatile float*>(buffer.span.buffer()); };
  EXPECT_DEATH(static_cast<void>(look()), "");
}

TEST(ShadowBackend, TrainsToTheCpusBits) {
  const testing::TempDir folder;
  ShadowBackend shadow;
  LeNetRun cpu(nullptr);
  LeNetRun run(&shadow);
  cpu.fit(folder / "cpu", 1);
  run.fit(folder / "run", 1);
  for (const char* file : {"model", "ema", "optimizer"}) {
    const std::string path = std::string("/checkpoints/last/") + file + ".safetensors";
    EXPECT_EQ(testing::read_file(folder / "cpu" + path), testing::read_file(folder / "run" + path))
        << file;
  }
}

/// What a run says of its steps, in the order of the calls.
class StepDiary final : public Observer {
 public:
  void on_step_start(const StepStart& step) override { note("start", step.global_step); }
  void on_step(const StepEvent& event) override {
    note("step", event.global_step);
    if (event.global_step == last) throw std::runtime_error("killed");
  }
  void on_checkpoint(const std::string& /*path*/) override { note("saved", 0); }

  std::vector<std::string> calls;
  std::int64_t last = -1;  ///< after which the run is killed

 private:
  void note(const char* what, std::int64_t number) {
    calls.push_back(std::string(what) + " " + std::to_string(number));
  }
};

/// Six steps in each of two epochs, on two devices.
TEST(FusedBackend, IsAskedAStepLateExceptWhereTheRunMustKnow) {
  FusedBackend backend;
  LeNetRun run(&backend);
  TrainOptions options = LeNetRun::options("", 2);
  options.accumulate = 1;
  StepDiary diary;
  run.fit(options, {&diary});
  EXPECT_EQ(2 * 2, backend.forced) << "each device's last step of each epoch";
  const std::vector<std::string> begin{"start 1", "start 2", "step 1", "start 3", "step 2"};
  EXPECT_EQ(begin, std::vector<std::string>(diary.calls.begin(), diary.calls.begin() + 5));
  const testing::TempDir folder;
  options.checkpoint.folder = folder / "run";
  options.checkpoint.every_steps = 2;
  options.checkpoint.save_best = false;
  options.epochs = 1;
  diary.calls.clear();
  run.fit(options, {&diary});
  const std::vector<std::string> saved{"start 1", "start 2", "step 1", "step 2", "saved 0"};
  EXPECT_EQ(saved, std::vector<std::string>(diary.calls.begin(), diary.calls.begin() + 5));
}

/// Bit for bit, though nobody but the backend can read a gradient.
TEST(FusedBackend, ARunThatIsKilledContinuesToTheSameWeights) {
  const testing::TempDir folder;
  FusedBackend backend;
  LeNetRun whole(&backend);
  TrainOptions options = LeNetRun::options(folder / "whole", 2);
  options.checkpoint.every_steps = 1;
  whole.fit(options);
  LeNetRun run(&backend);
  options.run_folder = folder / "run";
  StepDiary diary;
  diary.last = 5;  // of six, in mid-epoch
  EXPECT_THROW(run.fit(options, {&diary}), std::runtime_error);
  options.resume = "auto";
  run.fit(options);
  for (const char* file : {"model", "ema", "optimizer"}) {
    const std::string path = std::string("/checkpoints/last/") + file + ".safetensors";
    EXPECT_EQ(testing::read_file(folder / "whole" + path),
              testing::read_file(folder / "run" + path))
        << file;
  }
}

/// A checkpoint is no backend's own.
TEST(FusedBackend, ARunGoesOnOnTheCpuAndBack) {
  const testing::TempDir folder;
  FusedBackend backend;
  LeNetRun cpu(nullptr);
  LeNetRun fused(&backend);
  cpu.fit(folder / "cpu", 3);
  fused.fit(folder / "run", 1);
  cpu.fit(folder / "run", 2, "auto");
  fused.fit(folder / "run", 3, "auto");
  expect_near(weights_of_checkpoint(folder / "cpu/checkpoints/last", cpu.model),
              weights_of_checkpoint(folder / "run/checkpoints/last", cpu.model), 2e-4, "weights");
}

/// A feed that is told which fields its devices want, before it is opened.
class LandingFeed final : public Feed {
 public:
  explicit LandingFeed(Feed& inner) : inner_(inner) {}
  std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) override {
    stays_at_open = stays_;
    return inner_.open(epoch, from);
  }
  void set_landing(const device::Landing& landing) override { stays_ = landing.stays; }
  std::int64_t batch_size() const override { return inner_.batch_size(); }
  std::int64_t steps_per_epoch() const override { return inner_.steps_per_epoch(); }

  std::vector<std::string> stays_at_open;

 private:
  Feed& inner_;
  std::vector<std::string> stays_;
};

TEST(FusedBackend, SaysWhichFieldsOfABatchStayWithTheHost) {
  const testing::TempDir folder;
  FusedBackend backend;
  LeNetRun run(&backend);
  LandingFeed train(run.train);
  LandingFeed val(run.val);
  fit({.model = run.model,
       .objective = run.objective,
       .train = train,
       .validation = &val,
       .devices = run.devices,
       .backend = &backend},
      LeNetRun::options(folder / "run", 1));
  const std::vector<std::string> labels{"label"};
  EXPECT_EQ(labels, train.stays_at_open);
  EXPECT_EQ(labels, val.stays_at_open);
  LandingFeed again(run.val);
  evaluate({.model = run.model,
            .objective = run.objective,
            .feed = again,
            .devices = run.devices,
            .backend = &backend},
           {.precision = nn::Precision::kFloat32, .weights = folder / "run"});
  EXPECT_EQ(labels, again.stays_at_open);
}

/// Dropout, whose choices are keyed, and a layer that is used twice.
nn::Graph tied_graph_with_dropout() {
  nn::GraphBuilder builder;
  nn::Value x = builder.input("image", {3, 8, 8});
  x = builder.conv2d("conv1", x, {.channels = 3, .kernel = 3, .padding = 1});
  x = builder.conv2d("conv2", builder.relu("relu1", x), {.channels = 3, .kernel = 3, .padding = 1});
  x = builder.flatten("flatten", builder.relu("relu2", x));
  x = builder.dropout("dropout", x, {.probability = 0.5F});
  builder.output("logits", builder.linear("fc", x, {.features = 5}));
  return nn::tie_weights(builder.build(), {.layer = "conv2", .to = "conv1"});
}

TEST(FusedBackend, KeysDropoutAndTiesLayersAsTheCpuDoes) {
  FusedBackend backend;
  const auto cpu = make_cpu_backend();
  const StepBenchOptions options{.world = 2, .accumulate = 2, .graph = tied_graph_with_dropout()};
  StepBench oracle(*cpu, options);
  StepBench bench(backend, options);
  take_steps(oracle, options);
  take_steps(bench, options);
  expect_near(oracle.values()[0], bench.values()[0], 2e-4, "weights");
  EXPECT_NE(oracle.values()[0], oracle.values()[1]) << "the EMA is not the weights";
}

/// Non-finite steps are counted, whether the run learns of them at once or late; or end it, with
/// their number.
TEST(FusedBackend, AStepThatIsNotFiniteIsSkippedOrEndsTheRun) {
  FusedBackend backend;
  for (Backend* one : {static_cast<Backend*>(nullptr), static_cast<Backend*>(&backend)}) {
    LeNetRun run(one);
    auto samples = testing::make_samples(48, 784, 4, 1);
    samples[20].features[5] = std::numeric_limits<float>::infinity();  // in the third step of six
    run.train = testing::MemoryFeed(samples, 4, 2);
    TrainOptions options = LeNetRun::options("", 1);
    options.accumulate = 1;
    options.on_non_finite = OnNonFinite::kSkip;
    const FitResult result = run.fit(options);
    EXPECT_EQ(40, result.epochs[0].train_samples);
    EXPECT_TRUE(std::isfinite(*find_value(result.epochs[0].train, "loss")));
    options.on_non_finite = OnNonFinite::kFail;
    try {
      run.fit(options);
      ADD_FAILURE() << "it is finite";
    } catch (const Error& error) {
      EXPECT_NE(std::string::npos, std::string(error.what()).find("epoch 1, step 3"))
          << error.what();
    }
  }
}

TEST(CpuBackend, BuffersBeginAtMultiplesOf64Bytes) {
  const auto backend = make_cpu_backend();
  for (const std::size_t floats : {1, 17, 1000}) {
    const DeviceBuffer buffer = backend->allocate(floats);
    EXPECT_EQ(0U, static_cast<std::uintptr_t>(buffer.span.buffer()) % 64) << floats;
  }
}

/// 300,000 floats are more than one thread's share.
TEST(CpuBackend, UpdatesHaveTheSameBitsForAnyNumberOfThreads) {
  const auto backend = make_cpu_backend();
  ParameterTable table;
  table.add("a", {150'001}, true);
  table.add("b", {150'003}, false);
  const OptimizerOptions options{
      .rule = Adam{.groups = {{.parameters = "norms-biases", .weight_decay = 0.0F}}}};
  const std::size_t size = table.padded_size();
  std::vector<float> start = flat_values(table, 1.0F);
  const std::vector<float> gradients = flat_values(table, 2.0F);
  std::vector<float> expected = start;
  std::vector<float> first(size);
  std::vector<float> second(size);
  const std::vector<std::span<float>> states{first, second};
  Optimizer(options, table)
      .update({.weights = expected, .gradients = gradients, .states = states, .lr = 0.1F},
              {0, size});
  const DeviceBuffer weights = backend->allocate(size);
  const DeviceBuffer own_gradients = backend->allocate(size);
  const DeviceBuffer a = backend->allocate(size);
  const DeviceBuffer b = backend->allocate(size);
  backend->write(start, weights.span);
  backend->write(gradients, own_gradients.span);
  auto group = make_thread_collectives(1);
  const auto updater = backend->make_updater({.optimizer = options,
                                              .parameters = table,
                                              .weights = weights.span,
                                              .states = {a.span, b.span},
                                              .gradients = own_gradients.span,
                                              .owned = {{0, size}},
                                              .group = *group[0]});
  updater->measure(1.0, {});
  updater->update({.lr = 0.1F});
  std::vector<float> found(size);
  backend->read(weights.span, found);
  EXPECT_EQ(expected, found);
}

TEST(CpuBackend, CompilesAModelWithoutAGraphAndOthersRefuseIt) {
  const testing::LinearModel model(3, 2);
  ReferenceBackend reference;
  for (const bool is_cpu : {true, false}) {
    const auto cpu = make_cpu_backend();
    ComposedBackend& backend = is_cpu ? *cpu : reference;
    const DeviceBuffer weights = backend.allocate(model.parameters().padded_size());
    const DeviceBuffer buffers = backend.allocate(model.buffers().padded_size());
    const PlanBuffers spans{.parameters = weights.span, .buffers = buffers.span};
    if (is_cpu) {
      EXPECT_EQ(1U, backend.compile(model, {}, spans)->num_outputs());
    } else {
      EXPECT_THROW(backend.compile(model, {}, spans), Error);
    }
  }
}

}  // namespace
}  // namespace millrace::trainer
