// Each update rule against its formula in float64, on runs of any length.
#include "trainer/update_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "io/base/rng.h"
#include "io/component/component_text.h"
#include "tests/support/num_members.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/lamb.h"
#include "trainer/rules/lars.h"
#include "trainer/rules/lion.h"
#include "trainer/rules/muon.h"
#include "trainer/rules/sgd.h"

namespace millrace::trainer {
namespace {

using Values = std::vector<double>;

constexpr double kScale = 0.5;
constexpr double kDecay = 0.01;
constexpr double kLr = 0.02;

/// One float's weight and state, updated by the formula.
using Reference =
    std::function<void(int step, double gradient, double& weight, double& first, double& second)>;

struct Case {
  const char* name;
  Rule rule;
  Reference reference;
};

Reference sgd_reference(double momentum, double dampening, bool nesterov) {
  return [=](int step, double gradient, double& w, double& buffer, double&) {
    const double g = kScale * gradient + kDecay * w;
    buffer = step == 1 ? g : momentum * buffer + (1 - dampening) * g;
    w -= kLr * (nesterov ? g + momentum * buffer : buffer);
  };
}

Reference adam_reference(bool of_weights) {
  return [=](int step, double gradient, double& w, double& m, double& v) {
    const double g = kScale * gradient + (of_weights ? 0.0 : kDecay * w);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    if (of_weights) w *= 1 - kLr * kDecay;
    w -=
        kLr * (m / (1 - std::pow(0.9, step))) / (std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-8);
  };
}

Sgd sgd(float momentum, float dampening, bool nesterov) {
  return {.momentum = momentum, .dampening = dampening, .nesterov = nesterov};
}

void lars_reference(int, double gradient, double& w, double& buffer, double&) {
  buffer = 0.9 * buffer + kLr * (kScale * gradient + kDecay * w);
  w -= buffer;
}

void lion_reference(int, double gradient, double& w, double& m, double&) {
  const double g = kScale * gradient;
  const double direction = 0.9 * m + 0.1 * g;
  w -= kLr * ((direction > 0) - (direction < 0) + kDecay * w);
  m = 0.99 * m + 0.01 * g;
}

void lamb_reference(int step, double gradient, double& w, double& m, double& v) {
  const double g = kScale * gradient;
  m = 0.9 * m + 0.1 * g;
  v = 0.999 * v + 0.001 * g * g;
  w -= kLr * (m / (1 - std::pow(0.9, step)) / (std::sqrt(v / (1 - std::pow(0.999, step))) + 1e-6) +
              kDecay * w);
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"Sgd", sgd(0, 0, false), sgd_reference(0, 0, false)},
      {"SgdMomentum", sgd(0.9F, 0, false), sgd_reference(0.9, 0, false)},
      {"SgdDampening", sgd(0.9F, 0.25F, false), sgd_reference(0.9, 0.25, false)},
      {"SgdNesterov", sgd(0.9F, 0, true), sgd_reference(0.9, 0, true)},
      {"Adam", Adam(), adam_reference(false)},
      {"AdamW", AdamW(), adam_reference(true)},
      {"Lion", Lion(), lion_reference},
      {"Lars", Lars(), lars_reference},
      {"Lamb", Lamb(), lamb_reference},
      {"MuonWhatIsNoMatrix", Muon(), sgd_reference(0.9, 0, true)}};
  return all;
}

class Rules : public ::testing::TestWithParam<Case> {};

TEST_P(Rules, FollowTheirFormula) {
  const auto rule = GetParam().rule.make();
  for (const std::size_t size : {1U, 15U, 16U, 100U, 5000U}) {
    KeyedRng rng({.seed = size});
    std::vector<float> weights(size);
    for (float& w : weights) w = 2.0F * rng.uniform() - 1.0F;
    Values expected(weights.begin(), weights.end());
    std::vector<std::vector<float>> states(rule->state_names().size(), std::vector<float>(size));
    const std::vector<std::span<float>> spans(states.begin(), states.end());
    Values first(size);
    Values second(size);
    for (int step = 1; step <= 10; ++step) {
      std::vector<float> gradients(size);
      for (float& g : gradients) g = 2.0F * rng.uniform() - 1.0F;
      rule->apply({.lr = static_cast<float>(kLr),
                   .gradient_scale = static_cast<float>(kScale),
                   .weight_decay = static_cast<float>(kDecay),
                   .step = step},
                  {.weights = weights, .gradients = gradients, .states = spans});
      for (std::size_t i = 0; i < size; ++i) {
        GetParam().reference(step, static_cast<double>(gradients[i]), expected[i], first[i],
                             second[i]);
      }
    }
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_NEAR(expected[i], static_cast<double>(weights[i]), 3e-6) << i << " of " << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Rules, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(UpdateRule, LarsGoesByTheLayersNorms) {
  const auto lars = Lars{.trust = 0.1F}.make();
  EXPECT_TRUE(lars->uses_norms());
  EXPECT_FLOAT_EQ(0.1F * 5.0F / (10.0F + 0.2F * 5.0F),
                  lars->rate_factor({.weights = 5, .direction = 10, .weight_decay = 0.2}));
  EXPECT_EQ(1.0F, lars->rate_factor({.weights = 0, .direction = 10}));
  EXPECT_EQ(1.0F, lars->rate_factor({.weights = 5, .direction = 0}));
  EXPECT_FALSE(Adam().make()->uses_norms());
}

// Of what the step then does at the plain rate.
TEST(UpdateRule, LambGoesByTheNormsOfWeightsAndStep) {
  const auto lamb = Lamb().make();
  EXPECT_EQ(0.5F, lamb->rate_factor({.weights = 5, .direction = 10}));
  EXPECT_EQ(1.0F, lamb->rate_factor({.weights = 0, .direction = 10}));
  EXPECT_EQ(1.0F, lamb->rate_factor({.weights = 5, .direction = 0}));
  std::vector<float> weights = {3, -4, 0.5F};
  const std::vector<float> before = weights;
  const std::vector<float> gradients = {1, -0.25F, 2};
  std::vector<float> mean = {0.5F, 0.1F, -1};
  std::vector<float> square = {0.01F, 0.2F, 0.3F};
  const std::vector<std::span<float>> states = {mean, square};
  const RuleStep step{.lr = 1, .gradient_scale = 0.5F, .weight_decay = 0.1F, .step = 3};
  const RuleBuffers buffers{.weights = weights, .gradients = gradients, .states = states};
  const double squares = lamb->square_sum(step, buffers);
  lamb->apply(step, buffers);
  double moved = 0;
  for (std::size_t i = 0; i < 3; ++i) moved += std::pow(before[i] - weights[i], 2);
  EXPECT_NEAR(moved, squares, 1e-5 * moved);
}

TEST(UpdateRule, TheTableHasNamesAndDefaults) {
  EXPECT_THAT(standard_rules().words(),
              ::testing::ElementsAre("sgd", "adam", "adamw", "lion", "lars", "lamb", "muon"));
  for (const Component& one : standard_rules().all())
    EXPECT_GT(Rule(one).make()->settings().lr_for(0), 0.0) << text(one);
  EXPECT_LT(Adam().make()->settings().lr_for(0), 0.01) << "0.1 is SGD's: Adam does not survive it";
}

TEST(UpdateRule, ADefaultRateIsLessForFewerSamplesInAStep) {
  const RuleSettings usual = Sgd().make()->settings();
  EXPECT_EQ(0.1, usual.lr_for(0)) << "unknown";
  EXPECT_EQ(0.1, usual.lr_for(4096));
  EXPECT_EQ(0.025, usual.lr_for(32));
  EXPECT_EQ(0.3, Sgd{.lr = 0.3}.make()->settings().lr_for(32)) << "given";
  EXPECT_EQ(0.001, Adam().make()->settings().lr_for(32));
}

TEST(UpdateRule, EachMemberIsListed) {
  const auto num_listed = [](auto one) { return millrace::value_type(one).fields(&one).size(); };
  EXPECT_EQ(num_members<Sgd>(), num_listed(Sgd()));
  EXPECT_EQ(num_members<Adam>(), num_listed(Adam()));
  EXPECT_EQ(num_members<AdamW>(), num_listed(AdamW()));
  EXPECT_EQ(num_members<Lion>(), num_listed(Lion()));
  EXPECT_EQ(num_members<Lars>(), num_listed(Lars()));
  EXPECT_EQ(num_members<Lamb>(), num_listed(Lamb()));
  EXPECT_EQ(num_members<Muon>(), num_listed(Muon()));
  EXPECT_EQ(num_members<ParameterGroup>(), num_listed(ParameterGroup()));
}

TEST(UpdateRule, IsReadFromTextAndWrittenWhole) {
  const auto rule = parse("sgd(0.1, momentum=0.8, groups=[group(norms-biases, weight_decay=0)])",
                          standard_rules())
                        .front();
  const Sgd* sgd = rule.get_if<Sgd>();
  ASSERT_NE(nullptr, sgd);
  EXPECT_EQ(0.1, sgd->lr);
  EXPECT_EQ(0.8F, sgd->momentum);
  EXPECT_EQ(0.0F, sgd->groups.at(0).weight_decay);
  EXPECT_EQ(rule, parse(text(written(rule)), standard_rules()).front());
  EXPECT_EQ("adamw", text(parse("AdamW(betas=[0.9, 0.999])", standard_rules()).front()));
}

}  // namespace
}  // namespace millrace::trainer
