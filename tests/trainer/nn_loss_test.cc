#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "io/component/component_text.h"
#include "tests/trainer/nn_support.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/pixel_cross_entropy.h"
#include "trainer/loss/slot_loss.h"
#include "trainer/metrics.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;

/// Huber's loss, as a program adds one.
struct Huber {
  float delta = 1.0F;

  static constexpr ComponentName kName = {"huber", "Huber", "Squared error, then absolute"};
  void fields(FieldList& field) {
    field("delta", delta, {.min = 0, .open_min = true}, "Where the line begins");
  }
  std::unique_ptr<Loss> make() const {
    return make_value_loss("huber", [d = delta](float x, float y) -> LossPoint {
      const float e = x - y;
      if (std::abs(e) <= d) return {.loss = e * e / 2, .slope = e};
      return {.loss = d * (std::abs(e) - d / 2), .slope = std::copysign(d, e)};
    });
  }
};

std::unique_ptr<Loss> loss_of(std::string_view text) {
  TableOf<Loss> table = standard_losses();
  table.add<Huber>();
  return parse(text, table).front().make();
}

template <typename Function>
std::string message_of(const Function& function) {
  try {
    function();
    return "taken";
  } catch (const Error& error) {
    return error.message();
  }
}

struct Problem {
  std::vector<float> logits = random_values(12, 1);  // (3, 4)
  std::vector<std::int64_t> labels = {2, 0, 3};
  std::vector<std::uint8_t> valid = {1, 1, 1};
  std::vector<float> gradient = std::vector<float>(12, 9.0F);

  LossInput input(double divisor) {
    return {.prediction = {{3, 4}, logits},
            .target = {.labels = labels},
            .valid = valid,
            .divisor = divisor,
            .gradient = gradient};
  }
};

TEST(CrossEntropy, IsTheNegativeLogProbability) {
  Problem problem;
  double expected = 0;
  for (std::size_t slot = 0; slot < 3; ++slot) {
    double sum = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      sum += std::exp(static_cast<double>(problem.logits[slot * 4 + k]));
    }
    const auto label = static_cast<std::size_t>(problem.labels[slot]);
    expected += std::log(sum) - static_cast<double>(problem.logits[slot * 4 + label]);
  }
  const LossSums sums = loss_of("cross-entropy")->evaluate(problem.input(3));
  EXPECT_NEAR(sums.loss, expected, 1e-5);
  EXPECT_EQ(sums.num_valid, 3);
  EXPECT_EQ(sums.top5, 3);
}

TEST(CrossEntropy, GradientAgreesWithFiniteDifferences) {
  for (const float smoothing : {0.0F, 0.2F}) {
    const auto loss = LossChoice(losses::CrossEntropy{.label_smoothing = smoothing}).make();
    Problem problem;
    problem.valid[1] = 0;
    loss->evaluate(problem.input(2));
    const std::vector<float> gradient = problem.gradient;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const float kept = problem.logits[i];
      problem.logits[i] = kept + 1e-2F;
      const double above = loss->evaluate(problem.input(2)).loss;
      problem.logits[i] = kept - 1e-2F;
      const double below = loss->evaluate(problem.input(2)).loss;
      problem.logits[i] = kept;
      EXPECT_NEAR(static_cast<double>(gradient[i]), (above - below) / 2e-2 / 2.0, 1e-3);
    }
  }
}

TEST(CrossEntropy, OfAMixtureIsTheMixtureOfBothLabels) {
  for (const float smoothing : {0.0F, 0.1F}) {
    const auto loss = LossChoice(losses::CrossEntropy{.label_smoothing = smoothing}).make();
    Problem problem;
    problem.valid[1] = 0;
    const std::vector<std::int64_t> others = {1, 3, 3};
    const std::vector<float> shares = {0.7F, 0.5F, 0.2F};
    const auto of_slot = [&](std::size_t slot, std::int64_t label) {
      Problem one = problem;
      one.valid = {0, 0, 0};
      one.valid[slot] = 1;
      one.labels[slot] = label;
      const double value = loss->evaluate(one.input(2)).loss;
      return std::pair(value, one.gradient);
    };
    LossInput input = problem.input(2);
    input.target.others = others;
    input.target.shares = shares;
    const LossSums mixed = loss->evaluate(input);
    double expected = 0;
    for (const std::size_t slot : {0U, 2U}) {
      const auto own = of_slot(slot, problem.labels[slot]);
      const auto other = of_slot(slot, others[slot]);
      const double share = static_cast<double>(shares[slot]);
      expected += share * own.first + (1 - share) * other.first;
      for (std::size_t k = 4 * slot; k < 4 * slot + 4; ++k)
        EXPECT_NEAR(problem.gradient[k],
                    shares[slot] * own.second[k] + (1 - shares[slot]) * other.second[k], 1e-6);
    }
    EXPECT_NEAR(mixed.loss, expected, 1e-5);
    EXPECT_EQ(mixed.num_valid, 2);
    for (std::size_t k = 4; k < 8; ++k) EXPECT_EQ(problem.gradient[k], 0.0F);
    const std::vector<std::int64_t> beyond = {1, 3, 4};
    input.target.others = beyond;
    EXPECT_THROW(loss->evaluate(input), Error);
    input.target.others = std::span(others).first(2);
    EXPECT_THROW(loss->evaluate(input), Error);
  }
}

TEST(CrossEntropy, IgnoresMaskedSlots) {
  Problem problem;
  problem.valid = {1, 0, 1};
  problem.labels[1] = 77;  // not a label, and its slot is masked
  const LossSums masked = loss_of("cross-entropy")->evaluate(problem.input(2));
  EXPECT_EQ(masked.num_valid, 2);
  for (std::size_t k = 4; k < 8; ++k) EXPECT_EQ(problem.gradient[k], 0.0F);
}

TEST(CrossEntropy, CountsTopOneAndTopFive) {
  Problem problem;
  problem.logits = {0, 1, 5, 2, /**/ 9, 0, 0, 0, /**/ 3, 2, 1, 0};
  const LossSums sums = loss_of("cross-entropy")->evaluate(problem.input(3));
  EXPECT_EQ(sums.top1, 2);
  EXPECT_EQ(sums.top5, 3);
}

TEST(CrossEntropy, NamesTheSlotOfALabelBeyondTheClasses) {
  Problem problem;
  problem.labels[1] = 4;
  try {
    loss_of("cross-entropy")->evaluate(problem.input(3));
    FAIL() << "a label of 4 among 4 classes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("label 4 in slot 1"));
  }
  EXPECT_EQ(first_bad_label(problem.labels, problem.valid, 4), 1U);
}

/// timm's definition: targets smoothed and mixed, then compared with the threshold.
std::optional<std::vector<double>> class_bce_in_torch(const losses::ClassBce& of,
                                                      const Problem& problem,
                                                      const Target& target) {
  std::string threshold = "None";
  if (of.threshold) threshold = std::to_string(*of.threshold);
  return testing::run_torch(fmt::format(R"(
import torch.nn.functional as F
x = torch.tensor({}).reshape(3, 4).double().requires_grad_()
y, other = torch.tensor({}), torch.tensor({})
share, valid = torch.tensor({}).double()[:, None], torch.tensor({}).bool()
e, threshold = {}, {}
one_hot = lambda label: F.one_hot(label, 4).double() * (1 - e) + e / 4
t = share * one_hot(y) + (1 - share) * one_hot(other)
if threshold is not None:
    t = (t > threshold).double()
each = F.binary_cross_entropy_with_logits(x, t, reduction="none")
each = (each.sum(1) if {} else each.mean(1))[valid]
each.mean().backward()
print(each.sum().item())
for g in x.grad.flatten(): print(g.item())
)",
                                        problem.logits, problem.labels, target.others,
                                        target.shares, problem.valid, of.label_smoothing, threshold,
                                        of.sum_classes ? "True" : "False"));
}

TEST(ClassBce, AgreesWithPyTorch) {
  const std::vector<std::int64_t> others = {1, 3, 3};
  const std::vector<float> whole = {1.0F, 1.0F, 1.0F};
  const std::vector<float> mixed = {0.7F, 0.5F, 0.15F};
  for (const auto& shares : {whole, mixed})
    for (const losses::ClassBce& of :
         {losses::ClassBce{}, losses::ClassBce{.label_smoothing = 0.1F},
          losses::ClassBce{.threshold = 0.2F},
          losses::ClassBce{.label_smoothing = 0.2F, .threshold = 0.15F, .sum_classes = true}}) {
      Problem problem;
      problem.valid[1] = 0;
      LossInput input = problem.input(2);
      input.target.others = others;
      input.target.shares = shares;
      const auto theirs = class_bce_in_torch(of, problem, input.target);
      if (!theirs) GTEST_SKIP() << "no Python with torch";
      const auto loss = LossChoice(of).make();
      EXPECT_NEAR(loss->evaluate(input).loss, theirs->front(), 1e-5);
      for (std::size_t i = 1; i < theirs->size(); ++i)
        EXPECT_NEAR(static_cast<double>(problem.gradient[i - 1]), (*theirs)[i], 1e-6) << i;
      if (shares != whole) continue;
      const std::vector<float> gradient = problem.gradient;
      EXPECT_NEAR(loss->evaluate(problem.input(2)).loss, theirs->front(), 1e-5);
      EXPECT_EQ(problem.gradient, gradient) << "labels are mixtures with shares of 1";
    }
}

TEST(ClassBce, CountsWhatIsRightAndRefusesOtherLabels) {
  Problem problem;
  problem.logits = {0, 1, 5, 2, /**/ 9, INFINITY, 0, 0, /**/ 3, 2, 1, 0};
  problem.labels = {2, 1, 3};
  const LossSums sums = loss_of("class-bce(threshold=0.2)")->evaluate(problem.input(3));
  EXPECT_EQ(sums.num_valid, 3);
  EXPECT_EQ(sums.top1, 1) << "what is not finite hits nothing";
  EXPECT_EQ(sums.top5, 2);
  problem.labels[1] = 4;
  EXPECT_THAT(message_of([&] { loss_of("class-bce")->evaluate(problem.input(3)); }),
              HasSubstr("label 4 in slot 1"));
  problem.labels.pop_back();
  EXPECT_THAT(message_of([&] { loss_of("class-bce")->evaluate(problem.input(3)); }),
              HasSubstr("class-bce needs logits"));
}

class ValueLosses : public ::testing::TestWithParam<const char*> {};

TEST_P(ValueLosses, GradientAgreesWithFiniteDifferences) {
  const auto loss = loss_of(GetParam());
  std::vector<float> x = random_values(30, 1);  // (3, 10)
  std::vector<float> y = random_values(30, 2);
  for (float& value : y) value = value > 0 ? 1.0F : 0.0F;
  const std::vector<std::uint8_t> valid = {1, 0, 1};
  std::vector<float> gradient(30, 9.0F);
  const auto evaluate = [&] {
    return loss->evaluate({.prediction = {{3, 10}, x},
                           .target = {.values = y},
                           .valid = valid,
                           .divisor = 2,
                           .gradient = gradient});
  };
  const auto is_largest = [&](std::size_t index) {
    const std::size_t slot = index / 10 * 10;
    for (std::size_t i = slot; i < slot + 10; ++i) {
      if (std::abs(x[i] - y[i]) > std::abs(x[index] - y[index])) return false;
    }
    return true;
  };
  EXPECT_EQ(evaluate().num_valid, 2);
  const std::vector<float> analytic = gradient;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float kept = x[i];
    x[i] = kept + 1e-3F;
    const double above = evaluate().loss;
    x[i] = kept - 1e-3F;
    const double below = evaluate().loss;
    x[i] = kept;
    const double step = (above - below) / 2e-3 / 2.0;
    // BerHu's threshold, set by the largest error, is a constant for its gradient.
    if (std::string_view(GetParam()) == "berhu" && is_largest(i)) continue;
    EXPECT_NEAR(static_cast<double>(analytic[i]), step, 2e-3) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ValueLosses,
                         ::testing::Values("bce", "l1", "mse", "rmse", "berhu", "dice",
                                           "bce-dice(0.5, 2)", "tversky", "tversky(2, 0.1)",
                                           "huber(0.5)"));

TEST(LossTable, HasTheTextbooksValues) {
  std::vector<float> x = {0.0F, 2.0F, -1.0F, 4.0F};
  const std::vector<float> y = {0.0F, 1.0F, 1.0F, 0.0F};
  const std::vector<std::uint8_t> valid = {1};
  const auto value = [&](std::string_view name) {
    return loss_of(name)
        ->evaluate({.prediction = {{1, 4}, x}, .target = {.values = y}, .valid = valid})
        .loss;
  };
  EXPECT_NEAR(value("l1"), 7.0 / 4, 1e-6);
  EXPECT_NEAR(value("mse"), 21.0 / 4, 1e-6);
  EXPECT_NEAR(value("rmse"), std::sqrt(21.0 / 4), 1e-6);
  const double bce = std::log(2.0) + std::log1p(std::exp(-2.0)) + 1 + std::log1p(std::exp(-1.0)) +
                     4 + std::log1p(std::exp(-4.0));
  EXPECT_NEAR(value("bce"), bce / 4, 1e-6);
  // c = 0.8: three errors are above it.
  EXPECT_NEAR(value("berhu"), ((1 + 4 + 16 + 3 * 0.64) / 1.6) / 4, 1e-5);
  EXPECT_NEAR(value("huber"), (0.5 + 1.5 + 3.5) / 4, 1e-6);
  const double p1 = 1 / (1 + std::exp(-2.0)), p2 = 1 / (1 + std::exp(1.0)),
               p3 = 1 / (1 + std::exp(-4.0));
  const double dice = 1 - (2 * (p1 + p2) + 1) / (0.5 + p1 + p2 + p3 + 2 + 1);
  EXPECT_NEAR(value("dice"), dice, 1e-6);
  EXPECT_NEAR(value("bce-dice(0.5, 2)"), 0.5 * bce / 4 + 2 * dice, 1e-6);
  const double right = p1 + p2, set = 0.5 + p3, missed = 2 - p1 - p2;
  EXPECT_NEAR(value("tversky(0.2, 0.9)"), 1 - (right + 1) / (right + 0.2 * set + 0.9 * missed + 1),
              1e-6);
}

// Whose derivative is not finite there.
TEST(LossTable, TheRootOfNoErrorHasNoGradient) {
  std::vector<float> x = {1, 2};
  std::vector<float> gradient = {9, 9};
  const LossSums sums = loss_of("rmse")->evaluate({.prediction = {{1, 2}, x},
                                                   .target = {.values = x},
                                                   .valid = std::vector<std::uint8_t>{1},
                                                   .gradient = gradient});
  EXPECT_EQ(sums.loss, 0);
  EXPECT_EQ(gradient, (std::vector<float>{0, 0}));
}

TEST(LossTable, RefusesAParameterOutOfItsRange) {
  const auto message = [](const LossChoice& choice) { return message_of([&] { choice.make(); }); };
  EXPECT_THAT(message(losses::CrossEntropy{.label_smoothing = 1.0F}), HasSubstr("label_smoothing"));
  EXPECT_THAT(message(losses::PixelCrossEntropy{.class_weights = {1.0F, -1.0F}}),
              HasSubstr("class_weights"));
  EXPECT_THAT(message(losses::PixelCrossEntropy{.class_weights = {INFINITY}}),
              HasSubstr("class_weights"));
  EXPECT_THAT(message(losses::ClassBce{.label_smoothing = 0.1F, .threshold = 0.0F}),
              HasSubstr("every class's target 1"));
  EXPECT_THROW(parse("cross-entropy(dice=1)", standard_losses()), Mistake);
}

TEST(Auroc, CountsOrderedPairsAndHalfOfTies) {
  KeyedRng rng({.seed = 4});
  std::vector<float> scores;
  std::vector<float> targets;
  for (int i = 0; i < 200; ++i) {
    targets.push_back(rng.below(3) == 0 ? 1.0F : 0.0F);
    scores.push_back(static_cast<float>(rng.below(20)) + 3.0F * targets.back());
  }
  double won = 0.0;
  double pairs = 0.0;
  for (std::size_t p = 0; p < scores.size(); ++p) {
    for (std::size_t n = 0; n < scores.size(); ++n) {
      if (targets[p] == 0.0F || targets[n] == 1.0F) continue;
      pairs += 1.0;
      won += scores[p] > scores[n] ? 1.0 : (scores[p] == scores[n] ? 0.5 : 0.0);
    }
  }
  EXPECT_DOUBLE_EQ(won / pairs, auroc(scores, targets));
}

TEST(Auroc, IsUndefinedWithOneClassOrNan) {
  EXPECT_TRUE(std::isnan(auroc(std::vector<float>{1, 2}, std::vector<float>{1, 1})));
  EXPECT_TRUE(std::isnan(auroc(std::vector<float>{NAN, 2}, std::vector<float>{1, 0})));
  EXPECT_EQ(1.0, auroc(std::vector<float>{1, 2}, std::vector<float>{0, 1}));
}

TEST(MeanIou, IsTheMeanOfBothClasses) {
  MaskCounts counts;
  counts.add(std::vector<float>{1, 1, -1, -1}, std::vector<float>{1, 0, 0, 0});
  EXPECT_DOUBLE_EQ((1.0 / 2.0 + 2.0 / 3.0) / 2.0, mean_iou(counts));
  MaskCounts empty;
  empty.add(std::vector<float>{-1}, std::vector<float>{0});
  EXPECT_DOUBLE_EQ(1.0, mean_iou(empty)) << "a class that never occurs is left out";
}

TEST(SquaredError, SumsSquaresOfDifferences) {
  EXPECT_DOUBLE_EQ(5.0, squared_error(std::vector<float>{1, 4}, std::vector<float>{2, 2}));
}

}  // namespace

}  // namespace millrace::trainer
