// Arithmetic on flat buffers against plain float64, at every length around a chunk's and at every
// alignment: a buffer's alignment and a range's bounds must not change a bit.
#include "trainer/detail/flat_math.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "io/base/rng.h"
#include "trainer/detail/flat_chunks.h"

namespace millrace::trainer::flat {
namespace {

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  KeyedRng rng({.seed = seed});
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.uniform()) * 4.0F - 2.0F;
  return values;
}

class FlatMath : public ::testing::TestWithParam<std::size_t> {
 protected:
  std::size_t size() const { return GetParam(); }
  std::vector<float> a_ = random_values(size(), 1);
  std::vector<float> b_ = random_values(size(), 2);
};

TEST_P(FlatMath, AddsScalesAndClamps) {
  std::vector<float> sum = a_;
  add(sum, b_);
  std::vector<float> scaled = a_;
  scale(scaled, 0.3F);
  std::vector<float> bounded = a_;
  clamp(bounded, 0.5F);
  for (std::size_t i = 0; i < size(); ++i) {
    EXPECT_EQ(a_[i] + b_[i], sum[i]);
    EXPECT_EQ(a_[i] * 0.3F, scaled[i]);
    EXPECT_EQ(std::clamp(a_[i], -0.5F, 0.5F), bounded[i]);
  }
}

TEST_P(FlatMath, SumsSourcesInTheirOrder) {
  const std::vector<float> c = random_values(size(), 3);
  std::vector<float> into = b_;  // one of the sources
  const std::vector<const float*> sources{a_.data(), into.data(), c.data()};
  sum(into, sources);
  for (std::size_t i = 0; i < size(); ++i) EXPECT_EQ((a_[i] + b_[i]) + c[i], into[i]);
}

TEST_P(FlatMath, FollowsAnExponentialMean) {
  std::vector<float> ema = a_;
  update_ema(ema, b_, 0.9F);
  for (std::size_t i = 0; i < size(); ++i) {
    EXPECT_NEAR(0.9 * static_cast<double>(a_[i]) + 0.1 * static_cast<double>(b_[i]),
                static_cast<double>(ema[i]), 3e-7);
  }
}

TEST_P(FlatMath, SumsSquaresInDouble) {
  double expected = 0.0;
  double scaled = 0.0;
  for (const float value : a_) {
    expected += static_cast<double>(value) * static_cast<double>(value);
    scaled += std::pow(static_cast<double>(value * 0.3F), 2.0);
  }
  EXPECT_NEAR(expected, square_sum(a_), 1e-12 * (1.0 + expected));
  EXPECT_NEAR(scaled, square_sum(a_, 0.3F), 1e-12 * (1.0 + expected));
}

TEST_P(FlatMath, FindsTheOneValueThatIsNotFinite) {
  EXPECT_TRUE(all_finite(a_));
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t at : {std::size_t{0}, size() / 2, size() - 1}) {
      if (size() == 0) continue;
      std::vector<float> values = a_;
      values[at] = bad;
      EXPECT_FALSE(all_finite(values)) << bad << " at " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, FlatMath,
                         ::testing::Values(0, 1, 15, 16, 17, 31, 48, 1000, 4096, 9001),
                         ::testing::PrintToStringParamName());

TEST(FlatMath, KeepsNaNsToBeFound) {
  std::vector<float> values(20, std::nanf(""));
  clamp(values, 1.0F);
  for (const float value : values) EXPECT_TRUE(std::isnan(value));
}

TEST(FlatMath, RoundsToBf16AsEigenDoes) {
  std::vector<float> values = random_values(10'000, 4);
  for (const float special :
       {0.0F, -0.0F, 1.00390625F, 1.01171875F, 3.4e38F, 1e-40F, -1e-45F,
        std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    values.push_back(special);
  }
  std::vector<float> rounded = values;
  round_to_bf16(rounded);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(static_cast<float>(Eigen::bfloat16(values[i])), rounded[i]) << values[i];
  }
  std::vector<float> nan{std::nanf(""), std::bit_cast<float>(0x7F800001U)};
  round_to_bf16(nan);
  EXPECT_TRUE(std::isnan(nan[0]));
  EXPECT_TRUE(std::isnan(nan[1])) << "one whose bits are all in the half that is cut off";
}

// exp() of a packet and exp() of the library differ in the last bit: none may be by the latter.
TEST(FlatChunks, GiveTheSameBitsWhereverABufferBeginsAndEnds) {
  const auto work = [](std::span<float> values) {
    for_each_chunk([](auto value) { value = value.exp() / 3.0F + value.sqrt(); }, values);
  };
  std::vector<float> expected(200);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = 0.01F * static_cast<float>(i);
  const std::vector<float> start = expected;
  work(expected);
  for (std::size_t shift = 0; shift < 17; ++shift) {
    std::vector<float> moved(shift + start.size());
    std::copy(start.begin(), start.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
    work(std::span(moved).subspan(shift, 100 - shift));
    work(std::span(moved).subspan(100));
    for (std::size_t i = 0; i < start.size(); ++i) EXPECT_EQ(expected[i], moved[shift + i]);
  }
}

}  // namespace
}  // namespace millrace::trainer::flat
