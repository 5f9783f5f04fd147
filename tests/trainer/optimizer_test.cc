#include "trainer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "io/base/error.h"
#include "io/component/component_text.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/lamb.h"
#include "trainer/rules/lars.h"
#include "trainer/rules/lion.h"

namespace millrace::trainer {
namespace {

ParameterTable small_table() {
  ParameterTable table;
  table.add("fc.bias", {3}, false);
  table.add("fc.weight", {3, 7}, true);
  return table;
}

// The same start values and gradients as the script below.
float weight_at(std::size_t i) { return std::sin(static_cast<float>(i) + 1.0F); }
float gradient_at(std::size_t i, int step) {
  return std::cos(static_cast<float>(i) + 0.1F * static_cast<float>(step));
}

constexpr int kSteps = 5;

/// An optimizer with state of its own.
struct Stateful {
  Stateful(const OptimizerOptions& options, const ParameterTable& table)
      : optimizer(options, table),
        states(optimizer.state_names().size(), std::vector<float>(table.padded_size())),
        spans(states.begin(), states.end()) {}

  void update(Update update, Range range) {
    update.states = spans;
    std::vector<double> sums(optimizer.num_square_sums());
    optimizer.add_square_sums(update, range, sums);
    update.square_sums = sums;
    optimizer.update(update, range);
  }

  Optimizer optimizer;
  std::vector<std::vector<float>> states;
  std::vector<std::span<float>> spans;
};

std::vector<float> values_of(const ParameterTable& table, std::span<const float> flat) {
  std::vector<float> values;
  for (const Parameter& entry : table.entries()) {
    values.insert(values.end(), flat.begin() + static_cast<std::ptrdiff_t>(entry.offset),
                  flat.begin() + static_cast<std::ptrdiff_t>(entry.offset + entry.size));
  }
  return values;
}

void fill(const ParameterTable& table, std::vector<float>& flat, auto value) {
  std::size_t i = 0;
  for (const Parameter& entry : table.entries()) {
    for (std::size_t k = 0; k < entry.size; ++k) flat[entry.offset + k] = value(i++);
  }
}

std::vector<float> run_ours(const OptimizerOptions& options, float lr) {
  const ParameterTable table = small_table();
  Stateful optimizer(options, table);
  std::vector<float> weights(table.padded_size());
  std::vector<float> gradients(table.padded_size());
  fill(table, weights, weight_at);
  for (int step = 1; step <= kSteps; ++step) {
    fill(table, gradients, [&](std::size_t i) { return gradient_at(i, step); });
    optimizer.update({.weights = weights, .gradients = gradients, .lr = lr, .step = step},
                     {0, weights.size()});
  }
  return values_of(table, weights);
}

// What torch.optim has not, by the papers' formulas; LAMB's biases, the first three, at the plain
// rate.
constexpr const char* kOwnRules = R"(
class Lion:
  def __init__(self, params, lr, betas, weight_decay):
    self.w, self.lr, self.betas, self.decay = params[0], lr, betas, weight_decay
    self.m = torch.zeros_like(self.w)
  @torch.no_grad()
  def step(self):
    b1, b2 = self.betas
    direction = torch.sign(self.m.lerp(self.w.grad, 1 - b1))
    self.w.mul_(1 - self.lr * self.decay).sub_(self.lr * direction)
    self.m.lerp_(self.w.grad, 1 - b2)

class LAMB:
  def __init__(self, params, lr, betas, eps, weight_decay):
    self.w, self.lr, self.betas, self.eps, self.decay = params[0], lr, betas, eps, weight_decay
    self.m, self.v, self.t = torch.zeros_like(self.w), torch.zeros_like(self.w), 0
  @torch.no_grad()
  def step(self):
    b1, b2 = self.betas
    self.t += 1
    self.m.lerp_(self.w.grad, 1 - b1)
    self.v.lerp_(self.w.grad ** 2, 1 - b2)
    unbiased = (self.v / (1 - b2 ** self.t)).sqrt() + self.eps
    r = self.m / (1 - b1 ** self.t) / unbiased + self.decay * self.w
    ratio = torch.ones_like(r)
    ratio[3:] = self.w[3:].norm() / r[3:].norm()
    self.w.sub_(self.lr * ratio * r)

torch.optim.Lion, torch.optim.LAMB = Lion, LAMB
)";

std::string script_for(const std::string& optimizer) {
  return kOwnRules + std::string("import math\n") +
         "w = torch.tensor([math.sin(i + 1) for i in range(24)]).requires_grad_()\n"
         "opt = torch.optim." +
         optimizer +
         "\n"
         "for step in range(1, 6):\n"
         "  w.grad = torch.tensor([math.cos(i + 0.1 * step) for i in range(24)])\n"
         "  opt.step()\n"
         "for v in w.tolist(): print(repr(v))\n";
}

struct OptimizerCase {
  const char* name;
  const char* torch;
  OptimizerOptions options;
  float lr;
};

class OptimizerParity : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(OptimizerParity, FollowsTorch) {
  const auto expected = testing::run_torch(script_for(GetParam().torch));
  if (!expected) GTEST_SKIP() << "no Python with torch";
  const std::vector<float> ours = run_ours(GetParam().options, GetParam().lr);
  ASSERT_EQ(expected->size(), ours.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR((*expected)[i], ours[i], 2e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(
    All, OptimizerParity,
    ::testing::Values(
        OptimizerCase{"Sgd", "SGD([w], lr=0.1)", {.rule = Sgd{.momentum = 0}}, 0.1F},
        OptimizerCase{"SgdMomentum",
                      "SGD([w], lr=0.1, momentum=0.9, weight_decay=5e-4)",
                      {.rule = Sgd{.momentum = 0.9F, .weight_decay = 5e-4F}},
                      0.1F},
        OptimizerCase{"SgdDampening",
                      "SGD([w], lr=0.1, momentum=0.9, dampening=0.3)",
                      {.rule = Sgd{.momentum = 0.9F, .dampening = 0.3F}},
                      0.1F},
        OptimizerCase{"SgdNesterov",
                      "SGD([w], lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2)",
                      {.rule = Sgd{.momentum = 0.9F, .nesterov = true, .weight_decay = 1e-2F}},
                      0.1F},
        OptimizerCase{"Adam",
                      "Adam([w], lr=1e-2, weight_decay=1e-2)",
                      {.rule = Adam{.weight_decay = 1e-2F}},
                      1e-2F},
        OptimizerCase{"AdamW",
                      "AdamW([w], lr=1e-2, weight_decay=1e-2)",
                      {.rule = AdamW{.weight_decay = 1e-2F}},
                      1e-2F},
        OptimizerCase{"Lion",
                      "Lion([w], lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)",
                      {.rule = Lion{.betas = {0.9F, 0.95F}, .weight_decay = 0.1F}},
                      1e-2F},
        OptimizerCase{"Lamb",
                      "LAMB([w], lr=1e-2, betas=(0.9, 0.99), eps=1e-3, weight_decay=0.1)",
                      {.rule = Lamb{.betas = {0.9F, 0.99F}, .eps = 1e-3F, .weight_decay = 0.1F}},
                      1e-2F}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Optimizer, MomentumFollowsItsFormula) {
  ParameterTable table;
  table.add("w", {1}, true);
  Stateful optimizer({.rule = Sgd{.momentum = 0.5F}}, table);
  std::vector<float> w(16, 0.0F);
  std::vector<float> g(16, 0.0F);
  g[0] = 1.0F;
  for (int step = 1; step <= 3; ++step) {
    optimizer.update({.weights = w, .gradients = g, .lr = 1.0F, .step = step}, {0, 16});
  }
  EXPECT_FLOAT_EQ(-(1.0F + 1.5F + 1.75F), w[0]);
  EXPECT_FLOAT_EQ(1.75F, optimizer.states[0][0]);
  EXPECT_EQ(0.0F, w[1]) << "padding stays zero";
}

TEST(Optimizer, UpdatesInRangesAsInOnePass) {
  ParameterTable table;
  table.add("a", {5000}, true);
  table.add("b", {333}, true);
  const OptimizerOptions options{.rule = Adam{.weight_decay = 0.1F}};
  Stateful whole(options, table);
  Stateful parts(options, table);
  std::vector<float> g(table.padded_size());
  fill(table, g, weight_at);
  std::vector<float> one(table.padded_size(), 0.25F);
  std::vector<float> two = one;
  whole.update({.weights = one, .gradients = g, .lr = 0.1F}, {0, one.size()});
  parts.update({.weights = two, .gradients = g, .lr = 0.1F}, {0, 1600});
  parts.update({.weights = two, .gradients = g, .lr = 0.1F}, {1600, one.size()});
  EXPECT_EQ(one, two);
}

TEST(Optimizer, LeavesBiasesAndNormsWithoutDecay) {
  const ParameterTable table = small_table();
  Optimizer optimizer(
      {.rule = Sgd{.momentum = 0,
                   .weight_decay = 0.5F,
                   .groups = {{.parameters = "norms-biases", .weight_decay = 0.0F}}}},
      table);
  std::vector<float> w(table.padded_size(), 1.0F);
  const std::vector<float> g(table.padded_size(), 0.0F);
  optimizer.update({.weights = w, .gradients = g, .lr = 1.0F}, {0, w.size()});
  EXPECT_EQ(1.0F, w[table.find("fc.bias")->offset]);
  EXPECT_EQ(0.5F, w[table.find("fc.weight")->offset]);
}

TEST(Optimizer, TheFirstGroupThatHasAParameterCounts) {
  ParameterTable table;
  table.add("fc.bias", {2}, false);
  table.add("fc.weight", {2, 2}, true);
  table.add("conv.weight", {2, 2}, true);
  Optimizer optimizer(
      {.rule = Sgd{.momentum = 0,
                   .weight_decay = 0.5F,
                   .groups = {{.parameters = "fc.b", .rate = 3},
                              {.parameters = "fc.", .rate = 0.5, .weight_decay = 0.25F},
                              {.parameters = "norms-biases", .rate = 0}}}},
      table);
  std::vector<float> w(table.padded_size(), 1.0F);
  const std::vector<float> g(table.padded_size(), 1.0F);
  optimizer.update({.weights = w, .gradients = g, .lr = 0.125F}, {0, w.size()});
  EXPECT_EQ(1.0F - 0.375F * 1.5F, w[table.find("fc.bias")->offset]);
  EXPECT_EQ(1.0F - 0.0625F * 1.25F, w[table.find("fc.weight")->offset]);
  EXPECT_EQ(1.0F - 0.125F * 1.5F, w[table.find("conv.weight")->offset]);
}

// A rate of 0 freezes: neither gradient nor decay moves a weight.
TEST(Optimizer, AGroupMayBeAPatternAndARateOfZeroFreezes) {
  ParameterTable table;
  table.add("layer1.conv1.weight", {4}, true);
  table.add("layer1.bn1.weight", {4}, false);
  table.add("layer2.conv1.weight", {4}, true);
  for (const Rule& rule : std::vector<Rule>{
           Sgd{.momentum = 0.5F, .weight_decay = 0.5F, .groups = {{"layer?.conv*", 0}}},
           AdamW{.weight_decay = 0.5F, .groups = {{"layer?.conv*", 0}}},
           Lion{.weight_decay = 0.5F, .groups = {{"*.conv1.weight", 0}}},
           Lamb{.weight_decay = 0.5F, .groups = {{"*.conv1.[vw]eight", 0}}}}) {
    Stateful optimizer({.rule = rule}, table);
    std::vector<float> w(table.padded_size(), 1.0F);
    const std::vector<float> g(table.padded_size(), 0.25F);
    optimizer.update({.weights = w, .gradients = g, .lr = 0.1F}, {0, w.size()});
    for (const char* frozen : {"layer1.conv1.weight", "layer2.conv1.weight"})
      EXPECT_EQ(1.0F, w[table.find(frozen)->offset]) << text(rule);
    EXPECT_NE(1.0F, w[table.find("layer1.bn1.weight")->offset]) << text(rule);
  }
}

TEST(Optimizer, AGroupTrainsBetweenItsSteps) {
  ParameterTable table;
  table.add("stem.weight", {4}, true);
  table.add("fc.weight", {4}, true);
  Optimizer optimizer({.rule = Sgd{.momentum = 0,
                                   .weight_decay = 0.5F,
                                   .groups = {{.parameters = "stem.", .rate = 2, .until = 2},
                                              {.parameters = "fc.", .after = 1, .until = 3}}}},
                      table);
  const std::vector<float> g(table.padded_size(), 1.0F);
  const auto moves = [&](std::int64_t step, const char* name) {
    std::vector<float> w(table.padded_size(), 1.0F);
    optimizer.update({.weights = w, .gradients = g, .lr = 0.125F, .step = step}, {0, w.size()});
    return 1.0F - w[table.find(name)->offset];
  };
  const std::vector<float> stem = {0.375F, 0.375F, 0, 0}, fc = {0, 0.1875F, 0.1875F, 0};
  for (std::size_t i = 0; i < stem.size(); ++i) {
    EXPECT_EQ(moves(static_cast<std::int64_t>(i) + 1, "stem.weight"), stem[i]) << i;
    EXPECT_EQ(moves(static_cast<std::int64_t>(i) + 1, "fc.weight"), fc[i]) << i;
  }
}

// As a schedule of all would: from the run's rate, whatever the schedule's is.
TEST(Optimizer, AGroupFallsByItselfByEveryRule) {
  ParameterTable table;
  table.add("fc.weight", {4}, true);
  const std::vector<ParameterGroup> falling = {
      {.parameters = "fc.", .rate = 2, .after = 1, .until = 5, .falls = true}};
  const std::vector<ParameterGroup> steady = {{.parameters = "fc.", .rate = 2}};
  const std::vector<Rule> rules = {Sgd{.momentum = 0.9F, .groups = falling},
                                   Sgd{.momentum = 0.9F, .groups = steady},
                                   Adam{.groups = falling},
                                   Adam{.groups = steady},
                                   AdamW{.groups = falling},
                                   AdamW{.groups = steady},
                                   Lion{.groups = falling},
                                   Lion{.groups = steady},
                                   Lars{.groups = falling},
                                   Lars{.groups = steady},
                                   Lamb{.groups = falling},
                                   Lamb{.groups = steady}};
  const std::vector<float> rates = {0, 0.125F, 0.09375F, 0.0625F, 0.03125F};
  for (std::size_t i = 0; i < rules.size(); i += 2) {
    Stateful one({.rule = rules[i]}, table), other({.rule = rules[i + 1]}, table);
    std::vector<float> w(table.padded_size(), 1.0F), expected = w;
    for (std::size_t step = 1; step <= rates.size(); ++step) {
      const std::vector<float> g(w.size(), 0.5F / static_cast<float>(step));
      const auto number = static_cast<std::int64_t>(step);
      one.update({.weights = w, .gradients = g, .lr = 7.0F, .step = number, .base_lr = 0.125F},
                 {0, w.size()});
      other.update({.weights = expected, .gradients = g, .lr = rates[step - 1], .step = number},
                   {0, w.size()});
      ASSERT_NEAR(w[0], expected[0], 1e-6) << text(rules[i]) << ", step " << step;
    }
    EXPECT_LT(w[0], 1.0F) << text(rules[i]);
  }
}

TEST(Optimizer, GroupsWithSchedulesOfTheirOwnAgreeWithPyTorch) {
  const auto expected = testing::run_torch(R"(
a, b = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
sgd = torch.optim.SGD([{"params": [a], "lr": 0.25}, {"params": [b]}], lr=0.125, momentum=0.85,
                      nesterov=True, weight_decay=0.01)
schedule = torch.optim.lr_scheduler.LambdaLR(sgd, [lambda s: 1 - s / 3, lambda s: 1 - s / 8])
for step in range(1, 4):
    a.grad, b.grad = torch.full((4,), 0.5 / step), torch.full((4,), 0.5 / step)
    sgd.step()
    schedule.step()
print(a[0].item())
print(b[0].item())
)");
  if (!expected) GTEST_SKIP() << "no Python with torch";
  ParameterTable table;
  table.add("a", {4}, true);
  table.add("b", {4}, true);
  Stateful optimizer(
      {.rule = Sgd{.momentum = 0.85F,
                   .nesterov = true,
                   .weight_decay = 0.01F,
                   .groups = {{.parameters = "a", .rate = 2, .until = 3, .falls = true}}}},
      table);
  std::vector<float> w(table.padded_size(), 1.0F);
  for (std::int64_t step = 1; step <= 3; ++step) {
    const std::vector<float> g(w.size(), 0.5F / static_cast<float>(step));
    const float lr = 0.125F * (1.0F - static_cast<float>(step - 1) / 8.0F);
    optimizer.update({.weights = w, .gradients = g, .lr = lr, .step = step, .base_lr = 0.125F},
                     {0, w.size()});
  }
  EXPECT_NEAR((*expected)[0], w[table.find("a")->offset], 1e-6);
  EXPECT_NEAR((*expected)[1], w[table.find("b")->offset], 1e-6);
}

// LARS has the rate in its momentum, which would go on moving the weights.
TEST(Optimizer, AGroupThatIsOverStandsStillByEveryRule) {
  ParameterTable table;
  table.add("fc.weight", {4}, true);
  const std::vector<ParameterGroup> groups = {{.parameters = "fc.", .until = 2}};
  for (const Rule& rule :
       {Rule(Sgd{.momentum = 0.9F, .groups = groups}), Rule(Adam{.groups = groups}),
        Rule(AdamW{.groups = groups}), Rule(Lion{.groups = groups}), Rule(Lars{.groups = groups}),
        Rule(Lamb{.groups = groups})}) {
    Stateful optimizer({.rule = rule}, table);
    std::vector<float> w(table.padded_size(), 1.0F);
    const std::vector<float> g(table.padded_size(), 0.5F);
    std::vector<float> after;
    for (std::int64_t step = 1; step <= 4; ++step) {
      optimizer.update({.weights = w, .gradients = g, .lr = 0.125F, .step = step}, {0, w.size()});
      after.push_back(w[0]);
    }
    EXPECT_LT(after[1], after[0]) << text(rule);
    EXPECT_EQ(after[2], after[1]) << text(rule);
    EXPECT_EQ(after[3], after[1]) << text(rule);
  }
}

TEST(Optimizer, RoundsWeightsAndStateToBf16ToNearestEven) {
  ParameterTable table;
  table.add("w", {4}, true);
  Stateful optimizer({.rule = Sgd{.momentum = 0.5F}, .round_to_bf16 = true}, table);
  std::vector<float> w(16, 0.0F);
  w[0] = 1.00390625F;  // half way between two bf16 values: to the even one, 1.0
  w[1] = 1.01171875F;  // half way: up, to the even one
  w[2] = std::nanf("");
  std::vector<float> g(16, 0.0F);
  g[3] = 1.00390625F;
  optimizer.update({.weights = w, .gradients = g, .lr = 1.0F}, {0, 16});
  EXPECT_EQ(1.0F, w[0]);
  EXPECT_EQ(1.015625F, w[1]);
  EXPECT_TRUE(std::isnan(w[2])) << "NaN stays NaN";
  EXPECT_EQ(-1.0F, w[3]);
  EXPECT_EQ(1.0F, optimizer.states[0][3]);
}

TEST(Optimizer, LarsScalesEachLayerByItsTrust) {
  ParameterTable table;
  table.add("a.bias", {2}, false);
  table.add("a.weight", {2}, true);
  Optimizer optimizer({.rule = Lars{.momentum = 0, .trust = 0.1F}}, table);
  std::vector<float> w(table.padded_size(), 0.0F);
  std::vector<float> g(table.padded_size(), 0.0F);
  w[16] = 3.0F;
  w[17] = 4.0F;
  g[16] = 10.0F;
  g[0] = 1.0F;
  std::vector<double> sums(4, 0.0);
  Update update{.weights = w, .gradients = g, .lr = 1.0F};
  optimizer.add_square_sums(update, {0, 16}, sums);
  optimizer.add_square_sums(update, {16, 32}, sums);
  EXPECT_EQ((std::vector<double>{0, 0, 25, 100}), sums) << "biases have no norms";
  update.square_sums = sums;
  optimizer.update(update, {0, 32});
  EXPECT_FLOAT_EQ(3.0F - 0.5F, w[16]);
  EXPECT_FLOAT_EQ(-1.0F, w[0]) << "biases take the plain rate";
}

TEST(Optimizer, RefusesOptionsThatContradict) {
  const ParameterTable table = small_table();
  const std::vector<Rule> rules = {Sgd{.momentum = 0, .nesterov = true},
                                   Sgd{.dampening = 0.1F, .nesterov = true},
                                   Sgd{.momentum = 1.0F},
                                   Sgd{.weight_decay = -1.0F},
                                   Sgd{.lr = 0.0},
                                   Sgd{.lr = std::nan("")},
                                   Adam{.betas = {1.0F, 0.999F}},
                                   Adam{.betas = {0.9F}},
                                   AdamW{.eps = 0.0F},
                                   Lion{.betas = {0.9F}},
                                   Lamb{.betas = {0.9F, 0.99F, 0.9F}},
                                   Lars{.groups = {{.rate = 2}}},
                                   Lars{.groups = {{.parameters = "*", .after = -1}}},
                                   Lars{.groups = {{.parameters = "*", .after = 3, .until = 3}}},
                                   Lars{.groups = {{.parameters = "*", .falls = true}}}};
  for (const Rule& rule : rules)
    EXPECT_THROW(Optimizer({.rule = rule}, table), Error) << text(rule);
}

}  // namespace
}  // namespace millrace::trainer
