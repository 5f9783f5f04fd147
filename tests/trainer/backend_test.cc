// All backends in the suite of all; and tests of single ones.
#include "trainer/backend.h"

#include <gtest/gtest.h>

#include "tests/trainer/backend_conformance.h"
#include "tests/trainer/reference_backend.h"
#include "tests/trainer/shadow_backend.h"

namespace millrace::trainer {
namespace {

template <typename Made>
BackendCase case_of(const std::string& name) {
  return {name, [] { return std::make_unique<Made>(); }};
}

INSTANTIATE_TEST_SUITE_P(Cpu, BackendConformance,
                         ::testing::Values(BackendCase{"Cpu", make_cpu_backend}),
                         backend_case_name);
INSTANTIATE_TEST_SUITE_P(Shadow, BackendConformance,
                         ::testing::Values(case_of<testing::ShadowBackend>("Shadow")),
                         backend_case_name);
INSTANTIATE_TEST_SUITE_P(Reference, BackendConformance,
                         ::testing::Values(case_of<testing::ReferenceBackend>("Reference")),
                         backend_case_name);

TEST(ShadowBackend, EndsWhoeverLooksPastIt) {
  testing::ShadowBackend backend;
  const DeviceBuffer buffer = backend.allocate(16);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto look = [&] { return *reinterpret_cast<volatile float*>(buffer.span.address()); };
  EXPECT_DEATH(static_cast<void>(look()), "");
}

TEST(ShadowBackend, TrainsToTheCpusBits) {
  const testing::TempDir folder;
  testing::ShadowBackend shadow;
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

/// 300,000 floats are more than one thread's share.
TEST(CpuBackend, UpdatesHaveTheSameBitsForAnyNumberOfThreads) {
  const auto backend = make_cpu_backend();
  ParameterTable table;
  table.add("a", {150'001}, true);
  table.add("b", {150'003}, false);
  const OptimizerOptions options{.rule = "adam", .no_decay_on_biases_and_norms = true};
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
  testing::ReferenceBackend reference;
  for (const bool is_cpu : {true, false}) {
    const auto cpu = make_cpu_backend();
    Backend& backend = is_cpu ? *cpu : reference;
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
