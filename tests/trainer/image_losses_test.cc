// Losses of images against PyTorch's formulas and derivatives, with masked slots and places without
// a target.
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

namespace millrace::trainer {
namespace image_losses_test {

using ::testing::HasSubstr;

constexpr std::int64_t kSlots = 3, kChannels = 2, kHeight = 9, kWidth = 12;
constexpr std::size_t kSize = kChannels * kHeight * kWidth;

/// Two of the slots count; the first one lacks a few targets.
struct Images {
  std::vector<float> x = random_values(kSlots * kSize, 1);
  std::vector<float> y = random_values(kSlots * kSize, 2);
  std::vector<float> gradient = std::vector<float>(kSlots * kSize, 9.0F);
  std::vector<std::uint8_t> valid = {1, 0, 1};

  Images() {
    for (const std::size_t place : {0U, 30U, 31U, 200U})
      y[place] = std::numeric_limits<float>::quiet_NaN();
  }
  LossInput input() {
    return {.prediction = {{kSlots, kChannels, kHeight, kWidth}, x},
            .target = {.values = y},
            .valid = valid,
            .divisor = 2,
            .gradient = gradient};
  }
};

std::unique_ptr<Loss> loss_of(const std::string& word) {
  return parse(word, standard_losses()).front().make();
}

/// `formula` has one slot's x, y (0 where there is none) and m, which are there: (1, C, H, W).
std::optional<std::vector<double>> in_pytorch(const Images& of, const std::string& formula) {
  return testing::run_torch(fmt::format(
      "import torch.nn.functional as F\n"
      "nan = float('nan')\n"
      "X = torch.tensor({}, dtype=torch.float64).reshape({}, {}, {}, {}).requires_grad_()\n"
      "Y = torch.tensor({}, dtype=torch.float64).reshape(X.shape)\n"
      "def loss(x, y, m):\n{}\n"
      "slots = [loss(X[i:i + 1], Y[i:i + 1].nan_to_num(), ~Y[i:i + 1].isnan()) for i in {}]\n"
      "(sum(slots) / 2).backward()\n"
      "print(sum(slots).item())\n"
      "for g in X.grad.flatten(): print(g.item())\n",
      of.x, kSlots, kChannels, kHeight, kWidth, of.y, formula, "(0, 2)"));
}

constexpr const char* kGradientFormula = R"(
  d = x - y
  across, down = d[..., 1:] - d[..., :-1], d[..., 1:, :] - d[..., :-1, :]
  return across[m[..., 1:] & m[..., :-1]].abs().mean() + \
         down[m[..., 1:, :] & m[..., :-1, :]].abs().mean()
)";

/// With a window of 5 and a range of 3.
constexpr const char* kSsimFormula = R"(
  w = torch.exp(-(torch.arange(5) - 2.0) ** 2 / (2 * 1.5 ** 2)).double()
  w = torch.outer(w, w) / torch.outer(w, w).sum()
  blur = lambda v: F.conv2d(v.double(), w.expand(v.shape[1], 1, 5, 5), groups=v.shape[1])
  a, b = blur(x), blur(y)
  c1, c2 = (0.01 * 3) ** 2, (0.03 * 3) ** 2
  s = (2 * a * b + c1) * (2 * (blur(x * y) - a * b) + c2) / (
      (a ** 2 + b ** 2 + c1) * (blur(x ** 2) - a ** 2 + blur(y ** 2) - b ** 2 + c2))
  return 1 - s[blur(~m) == 0].mean()
)";

struct Case {
  const char* loss;
  const char* formula;
};

class ImageLosses : public ::testing::TestWithParam<Case> {};

TEST_P(ImageLosses, FollowPyTorch) {
  Images images;
  const LossSums sums = loss_of(GetParam().loss)->evaluate(images.input());
  EXPECT_EQ(sums.num_valid, 2);
  const auto theirs = in_pytorch(images, GetParam().formula);
  if (!theirs) GTEST_SKIP() << "no Python with torch";
  ASSERT_EQ(theirs->size(), 1 + images.gradient.size());
  EXPECT_NEAR(sums.loss, theirs->front(), 1e-6);
  for (std::size_t i = 0; i < images.gradient.size(); ++i)
    ASSERT_NEAR(static_cast<double>(images.gradient[i]), (*theirs)[i + 1], 1e-7) << i;
}

TEST_P(ImageLosses, AreZeroWithoutTargets) {
  Images images;
  std::ranges::fill(images.y, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(loss_of(GetParam().loss)->evaluate(images.input()).loss, 0);
  for (const float slope : images.gradient) ASSERT_EQ(slope, 0.0F);
}

TEST_P(ImageLosses, RefuseFeatures) {
  Images images;
  LossInput input = images.input();
  input.prediction.shape = {kSlots, static_cast<std::int64_t>(kSize)};
  try {
    loss_of(GetParam().loss)->evaluate(input);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("is a loss of images (N, C, H, W), got (3, 216)"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ImageLosses,
                         ::testing::Values(Case{"gradient", kGradientFormula},
                                           Case{"ssim(5, range=3)", kSsimFormula}),
                         [](const auto& one) { return std::string(one.param.loss).substr(0, 4); });

TEST(ImageLosses, OnePixelHasNoNeighbours) {
  std::vector<float> x = {2}, y = {1}, gradient = {9};
  EXPECT_EQ(loss_of("gradient")
                ->evaluate({.prediction = {{1, 1, 1, 1}, x},
                            .target = {.values = y},
                            .valid = std::vector<std::uint8_t>{1},
                            .gradient = gradient})
                .loss,
            0);
  EXPECT_EQ(gradient[0], 0.0F);
}

TEST(ImageLosses, AWindowIsOddAndFitsTheImages) {
  EXPECT_THROW(loss_of("ssim(4)"), Error);
  Images images;
  try {
    loss_of("ssim")->evaluate(images.input());
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(),
                HasSubstr("ssim's window of 11 pixels is larger than images of 9 x 12"));
  }
}

}  // namespace image_losses_test
}  // namespace millrace::trainer
