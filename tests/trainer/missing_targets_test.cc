// Float targets that are NaN: places without a value (padding), which count for nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/base/error.h"
#include "io/component/component_text.h"
#include "tests/trainer/nn_support.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/loss/loss.h"
#include "trainer/loss/value_losses.h"
#include "trainer/objective.h"

namespace millrace::trainer {
namespace missing_targets_test {

using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kSlots = 3;
constexpr std::size_t kPixels = 150;

LossChoice loss_called(const std::string& word) { return parse(word, standard_losses()).front(); }

/// Values and targets of three slots; the last one has no targets, the others have some.
struct Sparse {
  std::vector<float> x = random_values(kSlots * kPixels, 1);
  std::vector<float> y = random_values(kSlots * kPixels, 2);
  std::vector<float> gradient = std::vector<float>(kSlots * kPixels, 9.0F);
  std::vector<std::uint8_t> valid = {1, 1, 1};

  Sparse() {
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = y[i] > 0 ? 1.0F : 0.0F;
      if (i % 7 < 2 || i >= 2 * kPixels) y[i] = kNaN;
    }
  }

  LossInput input() {
    return {.prediction = {{kSlots, kPixels}, x},
            .target = {.values = y},
            .valid = valid,
            .divisor = 2,
            .gradient = gradient};
  }
};

class LossOfMissing : public ::testing::TestWithParam<const char*> {};

TEST_P(LossOfMissing, GiveTheLossOfTheOthersAlone) {
  const auto loss = loss_called(GetParam()).make();
  Sparse all;
  const LossSums sums = loss->evaluate(all.input());
  EXPECT_EQ(sums.num_valid, 3) << "as a slot of ignored pixels";
  double expected = 0;
  for (std::size_t slot = 0; slot < 2; ++slot) {
    std::vector<float> x, y;
    std::vector<std::size_t> places;
    for (std::size_t i = slot * kPixels; i < (slot + 1) * kPixels; ++i) {
      if (std::isnan(all.y[i])) continue;
      x.push_back(all.x[i]);
      y.push_back(all.y[i]);
      places.push_back(i);
    }
    std::vector<float> gradient(x.size());
    expected += loss->evaluate({.prediction = {{1, static_cast<std::int64_t>(x.size())}, x},
                                .target = {.values = y},
                                .valid = std::vector<std::uint8_t>{1},
                                .divisor = 2,
                                .gradient = gradient})
                    .loss;
    for (std::size_t i = 0; i < places.size(); ++i)
      EXPECT_EQ(all.gradient[places[i]], gradient[i]) << i;
  }
  EXPECT_EQ(sums.loss, expected) << "and nothing of the slot without targets";
  for (std::size_t i = 0; i < all.y.size(); ++i)
    ASSERT_TRUE(!std::isnan(all.y[i]) || all.gradient[i] == 0.0F) << i;
}

TEST_P(LossOfMissing, GiveThatLossWithoutGradientsToo) {
  const auto loss = loss_called(GetParam()).make();
  Sparse all;
  const double with = loss->evaluate(all.input()).loss;
  LossInput input = all.input();
  input.gradient = {};
  EXPECT_EQ(loss->evaluate(input).loss, with);
}

INSTANTIATE_TEST_SUITE_P(All, LossOfMissing,
                         ::testing::Values("bce", "l1", "mse", "rmse", "berhu", "dice", "bce-dice",
                                           "tversky"));

TEST(MissingTargets, AreMaskedMeansInPyTorch) {
  const std::vector<std::pair<std::string, std::string>> formulas = {
      {"bce", "F.binary_cross_entropy_with_logits(x[m], y[m])"},
      {"l1", "F.l1_loss(x[m], y[m])"},
      {"mse", "F.mse_loss(x[m], y[m])"},
      {"rmse", "F.mse_loss(x[m], y[m]).sqrt()"},
      {"dice",
       "1 - (2 * (x[m].sigmoid() * y[m]).sum() + 1) / (x[m].sigmoid().sum() + y[m].sum() + 1)"},
      {"tversky(0.2, 0.9)",
       "1 - ((p := x[m].sigmoid()) @ y[m] + 1) / "
       "(p @ y[m] + 0.2 * p @ (1 - y[m]) + 0.9 * (1 - p) @ y[m] + 1)"}};
  for (const auto& [name, formula] : formulas) {
    Sparse all;
    all.valid = {0, 1, 0};
    const double ours = loss_called(name).make()->evaluate(all.input()).loss;
    const auto slot = [](const std::vector<float>& values) {
      return std::vector<float>(values.begin() + kPixels, values.begin() + 2 * kPixels);
    };
    const auto theirs =
        testing::run_torch(fmt::format("import torch.nn.functional as F\n"
                                       "nan = float('nan')\n"
                                       "x = torch.tensor({}).requires_grad_()\n"
                                       "y = torch.tensor({})\n"
                                       "m = ~y.isnan()\n"
                                       "loss = {}\n"
                                       "(loss / 2).backward()\n"
                                       "print(loss.item())\n"
                                       "for g in x.grad: print(g.item())\n",
                                       slot(all.x), slot(all.y), formula));
    if (!theirs) GTEST_SKIP() << "no Python with torch";
    ASSERT_EQ(theirs->size(), 1 + kPixels);
    EXPECT_NEAR(ours, theirs->front(), 1e-6) << name;
    for (std::size_t i = 0; i < kPixels; ++i)
      ASSERT_NEAR(static_cast<double>(all.gradient[kPixels + i]), (*theirs)[i + 1], 1e-7) << name;
  }
}

/// Outputs that are given.
class GivenOutputs final : public nn::Plan {
 public:
  explicit GivenOutputs(std::vector<float> values)
      : values_(std::move(values)), gradient_(values_.size()) {}

  void forward(std::span<const std::span<const std::byte>>, nn::Mode,
               const nn::ParametersNeeded&) override {}
  std::size_t num_outputs() const override { return 1; }
  nn::OutputView output(std::size_t) override { return {shape(), values_}; }
  nn::OutputView output_gradient(std::size_t) override { return {shape(), gradient_}; }
  void backward(const std::function<void(std::size_t)>&) override {}
  void parameters_changed() override {}
  void set_random_key(const nn::BatchKey&) override {}
  std::size_t activation_bytes() const override { return 0; }

 private:
  std::vector<std::int64_t> shape() const {
    return {kSlots, 1, 1, static_cast<std::int64_t>(values_.size() / kSlots)};
  }

  std::vector<float> values_;
  std::vector<float> gradient_;
};

/// The measures of one batch, and the outputs' gradient.
struct Scored {
  NamedValues measures;
  std::vector<float> gradient;
};

/// All heads have one target.
Scored scored(const std::vector<Head>& heads, const std::vector<float>& outputs,
              std::vector<float> targets) {
  const auto each = static_cast<std::int64_t>(outputs.size() / kSlots);
  pipeline::Batch batch;
  batch.size = kSlots;
  batch.num_valid = kSlots;
  batch.valid = {1, 1, 1};
  batch.keys = {"a", "b", "c"};
  batch.fields = {{heads[0].target,
                   {decode::DType::kFloat32, {kSlots, 1, 1, each}},
                   std::as_writable_bytes(std::span(targets))}};
  GivenOutputs plan(outputs);
  const LossObjective objective({.heads = heads});
  std::vector<double> sums(objective.num_sums());
  objective.score({.plan = plan, .batch = batch, .gradients = true, .divisor = kSlots}, sums);
  const std::span<const float> gradient = plan.output_gradient(0).data;
  return {objective.finish({.sums = sums, .samples = kSlots}), {gradient.begin(), gradient.end()}};
}

NamedValues measured(const Head& head, const std::vector<float>& outputs,
                     std::vector<float> targets) {
  return scored({head}, outputs, std::move(targets)).measures;
}

TEST(LossObjective, AddsTheGradientsOfHeadsThatReadOneOutput) {
  const std::vector<float> outputs = random_values(kSlots * kPixels, 3);
  const std::vector<float> targets = random_values(kSlots * kPixels, 4);
  const Head l1{.name = "a", .loss = losses::L1{}, .target = "y", .weight = 0.5};
  const Head mse{.name = "b", .loss = losses::Mse{}, .target = "y"};
  const auto first = scored({l1}, outputs, targets).gradient;
  const auto second = scored({mse}, outputs, targets).gradient;
  const auto both = scored({l1, mse}, outputs, targets).gradient;
  for (std::size_t i = 0; i < both.size(); ++i) EXPECT_EQ(both[i], first[i] + second[i]);
}

TEST(MissingTargets, AreNotMeasured) {
  for (const auto& [loss, metric] : {std::pair{"bce", Metric::kIou}, {"berhu", Metric::kRmse}}) {
    const Head head{
        .loss = loss_called(loss), .target = "mask", .may_lack_targets = true, .metrics = {metric}};
    std::vector<float> outputs = random_values(kSlots * kPixels, 3);
    std::vector<float> targets = random_values(kSlots * kPixels, 4);
    for (float& target : targets) target = target > 0.2F ? 1.0F : 0.0F;
    // The same, padded in front and behind, where the outputs are far off.
    std::vector<float> padded, lacking;
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const auto from = static_cast<std::ptrdiff_t>(slot * kPixels);
      const auto to = static_cast<std::ptrdiff_t>((slot + 1) * kPixels);
      padded.insert(padded.end(), 40, 100.0F);
      padded.insert(padded.end(), outputs.begin() + from, outputs.begin() + to);
      padded.insert(padded.end(), 13, -100.0F);
      lacking.insert(lacking.end(), 40, kNaN);
      lacking.insert(lacking.end(), targets.begin() + from, targets.begin() + to);
      lacking.insert(lacking.end(), 13, kNaN);
    }
    EXPECT_EQ(measured(head, padded, lacking), measured(head, outputs, targets)) << loss;
  }
}

TEST(MissingTargets, AreAFaultWhereTheyAreNotExpected) {
  for (const char* loss : {"bce", "l1"}) {
    std::vector<float> targets(kSlots * 4, 0.5F);
    targets[6] = kNaN;
    try {
      measured({.loss = loss_called(loss), .target = "mask"}, std::vector<float>(kSlots * 4),
               targets);
      FAIL() << loss;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_EQ(error.where().key, "b");
      EXPECT_THAT(error.message(), HasSubstr("mask nan is not"));
    }
    targets[6] = std::numeric_limits<float>::infinity();
    EXPECT_THROW(measured({.loss = loss_called(loss), .target = "mask", .may_lack_targets = true},
                          std::vector<float>(kSlots * 4), targets),
                 Error)
        << "an infinity is no missing value";
  }
}

}  // namespace missing_targets_test
}  // namespace millrace::trainer
