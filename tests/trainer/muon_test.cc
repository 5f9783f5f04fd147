// Muon against PyTorch, over any number of ranks.
#include "trainer/rules/muon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/base/error.h"
#include "io/component/component_text.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/composed_backend.h"
#include "trainer/matrix_rule.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;

/// A wide bank of filters, a tall matrix, a square one, and what is none: the last layer's, in
/// front, biases, and a scale per channel.
ParameterTable muon_table() {
  ParameterTable table;
  table.add("head.weight", {3, 6}, true);
  table.add("tall.bias", {20}, false);
  table.add("tall.weight", {20, 6}, true);
  table.add("scale", {9, 1, 1}, false);
  table.add("square.weight", {9, 9}, true);
  table.add("conv.weight", {6, 4, 3, 3}, true);
  return table;
}

float muon_weight(std::size_t i) { return std::sin(static_cast<float>(i) + 1.0F); }
float muon_gradient(std::size_t i, int step) {
  return static_cast<float>(std::cos(1.7 * static_cast<double>(i) + 0.3 * step * step));
}

std::vector<float> fill_table(const ParameterTable& table, auto value) {
  std::vector<float> flat(table.padded_size());
  std::size_t i = 0;
  for (const Parameter& entry : table.entries())
    for (std::size_t k = 0; k < entry.size; ++k) flat[entry.offset + k] = value(i++);
  return flat;
}

struct MuonRun {
  std::vector<float> weights;
  std::vector<float> ema;
  std::vector<float> momentum;
};

constexpr int kMuonSteps = 4;

/// Steps of so many ranks of one process, whose gradients add up to muon_gradient(); `numbers`: of
/// each, but for its own.
MuonRun run_muon(const OptimizerOptions& options, int world, const StepNumbers& numbers) {
  const ParameterTable table = muon_table();
  const std::size_t size = table.padded_size();
  const auto backend = make_cpu_backend();
  const DeviceBuffer weights = backend->allocate(size);
  const DeviceBuffer ema = backend->allocate(size);
  const DeviceBuffer momentum = backend->allocate(size);
  backend->write(fill_table(table, muon_weight), weights.span);
  backend->write(fill_table(table, muon_weight), ema.span);
  auto sums = make_thread_collectives(world);
  auto control = make_thread_collectives(world);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(world); ++rank) {
    threads.emplace_back([&, rank] {
      const DeviceBuffer gradients = backend->allocate(size);
      const DeviceBuffer none = backend->allocate(0);
      const auto reducer =
          backend->make_reducer(gradients.span, *sums[rank], {.bucket_floats = 160});
      const auto updater = backend->make_updater({.optimizer = options,
                                                  .parameters = table,
                                                  .ema_decay = 0.5,
                                                  .weights = weights.span,
                                                  .states = {momentum.span},
                                                  .ema = ema.span,
                                                  .gradients = gradients.span,
                                                  .buffers = none.span,
                                                  .kept_buffers = none.span,
                                                  .owned = reducer->owned(),
                                                  .group = *control[rank]});
      for (int step = 1; step <= kMuonSteps; ++step) {
        const auto part = [&](std::size_t i) {
          return 2.0F * muon_gradient(i, step) / static_cast<float>(world);
        };
        backend->write(fill_table(table, part), gradients.span);
        reducer->begin();
        reducer->wait();
        updater->measure(0.5, {});
        updater->update(
            {.lr = numbers.lr, .step = step, .gradient_scale = 0.5, .base_lr = numbers.base_lr});
        control[rank]->barrier();
      }
    });
  }
  threads.clear();
  const auto values = [&](const DeviceBuffer& buffer) {
    std::vector<float> read(size);
    backend->read(buffer.span, read);
    return read;
  };
  return {values(weights), values(ema), values(momentum)};
}

/// All weights after kMuonSteps, in the table's order. `update`: of a matrix w with its momentum
/// buffer b and gradient g.
std::string muon_script(const std::string& settings) {
  return settings + R"(
import math
shapes = [(3, 6), (20,), (20, 6), (9, 1, 1), (9, 9), (6, 4, 3, 3)]
matrices = [2, 4, 5]
sizes = [math.prod(s) for s in shapes]
starts = [sum(sizes[:i]) for i in range(len(sizes))]
def values(i, f): return torch.tensor([f(starts[i] + k) for k in range(sizes[i])]).reshape(shapes[i])
def orthogonal(g):
  x = g.reshape(len(g), -1)
  tall = x.size(0) > x.size(1)
  if tall: x = x.T
  x = x / (x.norm() + 1e-7)
  for _ in range(ns_steps):
    a = x @ x.T
    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
  return (x.T if tall else x).reshape(g.shape)
w = [torch.nn.Parameter(values(i, lambda k: math.sin(k + 1))) for i in range(len(shapes))]
others = [w[i] for i in range(len(w)) if i not in matrices]
sgd = torch.optim.SGD(others, lr=sgd_lr, momentum=sgd_momentum, nesterov=True, weight_decay=decay)
buffers = [torch.zeros_like(p) for p in w]
for step in range(1, 5):
  for i, p in enumerate(w): p.grad = values(i, lambda k: math.cos(1.7 * k + 0.3 * step * step))
  sgd.step()
  with torch.no_grad():
    for i in matrices:
      p, b = w[i], buffers[i]
      b.mul_(momentum).add_(p.grad)
      g = p.grad + momentum * b if nesterov else b
      if normalise: p.mul_(len(p) ** 0.5 / p.norm())
      p.mul_(1 - lr * decay)
      rows, columns = len(p), p.numel() // len(p)
      p.sub_(lr * max(1, rows / columns) ** 0.5 * orthogonal(g))
for p in w:
  for v in p.flatten().tolist(): print(repr(v))
)";
}

struct MuonCase {
  const char* name;
  const char* torch;  ///< the script's settings
  Muon rule;
};

class MuonParity : public ::testing::TestWithParam<MuonCase> {};

TEST_P(MuonParity, FollowsItsFormulaInPyTorchOnAnyNumberOfRanks) {
  const auto expected = testing::run_torch(muon_script(GetParam().torch));
  if (!expected) GTEST_SKIP() << "no Python with torch";
  const ParameterTable table = muon_table();
  for (const int world : {1, 2, 3}) {
    const std::vector<float> flat =
        run_muon({.rule = GetParam().rule}, world, {.lr = 0.05F}).weights;
    std::size_t i = 0;
    for (const Parameter& entry : table.entries())
      for (std::size_t k = 0; k < entry.size; ++k, ++i)
        ASSERT_NEAR(expected->at(i), flat[entry.offset + k], 1e-5)
            << entry.name << " " << k << " on " << world;
    ASSERT_EQ(expected->size(), i);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MuonParity,
    ::testing::Values(
        MuonCase{"Defaults",
                 "lr, momentum, nesterov, ns_steps, normalise, sgd_lr, sgd_momentum, decay = "
                 "0.05, 0.95, True, 5, False, 0.05, 0.9, 0",
                 Muon{.lr = 0.05}},
        MuonCase{"Airbench",
                 "lr, momentum, nesterov, ns_steps, normalise, sgd_lr, sgd_momentum, decay = "
                 "0.05, 0.6, True, 3, True, 0.01, 0.85, 0.1",
                 Muon{.lr = 0.05,
                      .momentum = 0.6F,
                      .steps = 3,
                      .normalise = true,
                      .sgd_lr = 0.01,
                      .sgd_momentum = 0.85F,
                      .weight_decay = 0.1F}},
        MuonCase{"Plain",
                 "lr, momentum, nesterov, ns_steps, normalise, sgd_lr, sgd_momentum, decay = "
                 "0.05, 0.5, False, 1, False, 0.05, 0.5, 0.01",
                 Muon{.lr = 0.05,
                      .momentum = 0.5F,
                      .nesterov = false,
                      .steps = 1,
                      .sgd_momentum = 0.5F,
                      .weight_decay = 0.01F}}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Muon, MatricesHaveTheSameMomentumAndAnEmaOnAnyNumberOfRanks) {
  const MuonRun one = run_muon({.rule = Muon{.lr = 0.05}}, 1, {.lr = 0.05F});
  const MuonRun three = run_muon({.rule = Muon{.lr = 0.05}}, 3, {.lr = 0.05F});
  for (std::size_t i = 0; i < one.weights.size(); ++i) {
    ASSERT_NEAR(one.momentum[i], three.momentum[i], 1e-5) << i;
    ASSERT_NEAR(one.ema[i], three.ema[i], 1e-5) << i;
  }
  const ParameterTable table = muon_table();
  const std::size_t at = table.find("conv.weight")->offset;
  EXPECT_NE(one.ema[at], one.weights[at]);
  EXPECT_NE(one.ema[at], fill_table(table, muon_weight)[at]);
}

TEST(Muon, StepsOfAWideMatrixHaveSingularValuesNearOne) {
  const Rule rule = Muon();
  const auto made = rule.make();
  const auto* muon = dynamic_cast<const MatrixRule*>(made.get());
  ASSERT_NE(nullptr, muon);
  std::vector<float> step = {3, 1, 0.5F, 0, 0.1F, -2, 0, 0};  // 2 x 4
  muon->make_step({.rows = 2, .columns = 4}, step);
  double first = 0;
  double second = 0;
  double both = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    first += std::pow(step[i], 2);
    second += std::pow(step[4 + i], 2);
    both += static_cast<double>(step[i] * step[4 + i]);
  }
  EXPECT_THAT(first, ::testing::AllOf(::testing::Gt(0.4), ::testing::Lt(1.5)));
  EXPECT_THAT(second, ::testing::AllOf(::testing::Gt(0.4), ::testing::Lt(1.5)));
  EXPECT_LT(std::abs(both), 0.2);
}

TEST(Muon, TakesTheMatricesThatAreNamedAndLeavesFrozenOnes) {
  const ParameterTable table = muon_table();
  const std::vector<float> before = fill_table(table, muon_weight);
  const Muon sgd_alone{.lr = 0.05, .matrices = {"none."}};
  const Muon named{.lr = 0.05, .matrices = {"tall.", "head.*"}};
  const Muon frozen{.lr = 0.05, .normalise = true, .groups = {{"*.weight", 0}}};
  const auto sgd_weights = run_muon({.rule = sgd_alone}, 2, {.lr = 0.05F}).weights;
  const auto named_weights = run_muon({.rule = named}, 2, {.lr = 0.05F}).weights;
  const auto frozen_weights = run_muon({.rule = frozen}, 2, {.lr = 0.05F}).weights;
  const Muon waiting{
      .lr = 0.05, .normalise = true, .groups = {{.parameters = "*.weight", .after = kMuonSteps}}};
  EXPECT_EQ(run_muon({.rule = waiting}, 2, {.lr = 0.05F}).weights, frozen_weights);
  for (const Parameter& entry : table.entries()) {
    const bool is_weight = entry.shape.size() == 2 || entry.shape.size() == 4;
    const bool is_named =
        is_weight && (entry.name.starts_with("tall") || entry.name.starts_with("head"));
    const std::size_t at = entry.offset + 2;
    EXPECT_EQ(is_named, named_weights[at] != sgd_weights[at]) << entry.name;
    EXPECT_EQ(is_weight, frozen_weights[at] == before[at]) << entry.name;
  }
}

TEST(Muon, AGroupOfMatricesFallsByItself) {
  const Muon falling{
      .lr = 0.05,
      .groups = {{.parameters = "*", .rate = 2, .until = kMuonSteps + 1, .falls = true}}};
  const auto weights = [](const Muon& rule, const StepNumbers& numbers) {
    return run_muon({.rule = rule}, 2, numbers).weights;
  };
  const auto fallen = weights(falling, {.lr = 0.05F});
  EXPECT_EQ(fallen, weights(falling, {.lr = 7.0F, .base_lr = 0.05F}));
  EXPECT_NE(fallen, weights({.lr = 0.05, .groups = {{"*", 2}}}, {.lr = 0.05F}));
}

TEST(Muon, RoundsMatricesAndTheirMomentumInTrueBfloat16) {
  const MuonRun run = run_muon({.rule = Muon{.lr = 0.05}, .round_to_bf16 = true}, 2, {.lr = 0.05F});
  const auto is_bf16 = [](float value) {
    return (std::bit_cast<std::uint32_t>(value) & 0xFFFFU) == 0;
  };
  for (const std::vector<float>* values : {&run.weights, &run.momentum})
    EXPECT_TRUE(std::ranges::all_of(*values, is_bf16));
}

// An Optimizer changes floats one by one: a backend of one's own that has nothing else is told.
TEST(Muon, IsRefusedByNameWhereOnlyRunsOfFloatsAreUpdated) {
  const ParameterTable table = muon_table();
  try {
    Optimizer({.rule = Muon()}, table);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kUnsupported, error.code());
    EXPECT_THAT(error.what(), HasSubstr("muon"));
  }
}

TEST(Muon, RefusesOptionsThatDoNotFit) {
  for (const Rule& rule : std::vector<Rule>{
           Muon{.momentum = 1.0F}, Muon{.steps = 0}, Muon{.coefficients = {1.0F, 2.0F}},
           Muon{.matrices = {""}}, Muon{.sgd_lr = 0.0}, Muon{.sgd_momentum = 0.0F}})
    EXPECT_THROW(rule.make(), Error) << text(rule);
}

}  // namespace
}  // namespace millrace::trainer
