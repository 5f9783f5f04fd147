#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "io/base/error.h"
#include "tests/trainer/nn_support.h"
#include "trainer/loss/loss.h"

namespace millrace::trainer {
namespace {

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
  const LossSums sums = make_loss("cross_entropy")->evaluate(problem.input(3));
  EXPECT_NEAR(sums.loss, expected, 1e-5);
  EXPECT_EQ(sums.num_valid, 3);
  EXPECT_EQ(sums.top5, 3);
}

TEST(CrossEntropy, GradientAgreesWithFiniteDifferences) {
  for (const float smoothing : {0.0F, 0.2F}) {
    const auto loss = make_loss("cross_entropy", {.label_smoothing = smoothing});
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

TEST(CrossEntropy, LeavesMaskedSlotsOut) {
  Problem problem;
  problem.valid = {1, 0, 1};
  problem.labels[1] = 77;  // nobody's label, and nobody asks
  const LossSums masked = make_loss("cross_entropy")->evaluate(problem.input(2));
  EXPECT_EQ(masked.num_valid, 2);
  for (std::size_t k = 4; k < 8; ++k) EXPECT_EQ(problem.gradient[k], 0.0F);
}

TEST(CrossEntropy, CountsTopOneAndTopFive) {
  Problem problem;
  problem.logits = {0, 1, 5, 2, /**/ 9, 0, 0, 0, /**/ 3, 2, 1, 0};
  const LossSums sums = make_loss("cross_entropy")->evaluate(problem.input(3));
  EXPECT_EQ(sums.top1, 2);
  EXPECT_EQ(sums.top5, 3);
}

TEST(CrossEntropy, NamesTheSlotOfALabelThatIsNoClass) {
  Problem problem;
  problem.labels[1] = 4;
  try {
    make_loss("cross_entropy")->evaluate(problem.input(3));
    FAIL() << "a label of 4 among 4 classes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("label 4 in slot 1"));
  }
  EXPECT_EQ(first_bad_label(problem.labels, problem.valid, 4), 1U);
}

}  // namespace
}  // namespace millrace::trainer
