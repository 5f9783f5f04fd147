#include "trainer/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "io/base/rng.h"

namespace millrace::trainer {
namespace {

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
