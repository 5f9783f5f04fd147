// InfoNCE against PyTorch in float64, and a batch on one rank against its parts on several.
#include "trainer/loss/info_nce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "io/base/error.h"
#include "io/component/component_text.h"
#include "tests/trainer/fakes.h"
#include "tests/trainer/nn_support.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/collectives.h"

namespace millrace::trainer {
namespace info_nce_test {

using ::testing::HasSubstr;

constexpr std::size_t kSlots = 14, kWidth = 6;
constexpr double kDivisor = 13;

/// Samples of one, two and three views; one of the slots is masked.
struct Embeddings {
  std::vector<float> x = random_values(kSlots * kWidth, 4);
  std::vector<std::int64_t> samples = {7, -3, 7, 5, 5, 5, 11, 8, -3, 9, 8, 12, 12, 9};
  std::vector<std::uint8_t> valid = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1};
  std::vector<float> gradient = std::vector<float>(kSlots * kWidth, 9.0F);

  /// Of the slots from `first` on.
  LossInput part(std::size_t first, std::size_t count, Collectives* group) {
    return {.prediction = {{static_cast<std::int64_t>(count), kWidth},
                           std::span(x).subspan(first * kWidth, count * kWidth)},
            .target = {.labels = std::span(samples).subspan(first, count)},
            .valid = std::span(valid).subspan(first, count),
            .divisor = kDivisor,
            .gradient = std::span(gradient).subspan(first * kWidth, count * kWidth),
            .group = group};
  }
  LossInput all() { return part(0, kSlots, nullptr); }
};

std::unique_ptr<Loss> info_nce(float temperature = 0.2F) {
  return LossChoice(losses::InfoNce{.temperature = temperature}).make();
}

/// The sum of the losses, then the gradients.
std::optional<std::vector<double>> in_pytorch(const Embeddings& of) {
  return testing::run_torch(fmt::format(R"(
import torch.nn.functional as F
x = torch.tensor({}, dtype=torch.float64).reshape({}, {}).requires_grad_()
samples, keep = torch.tensor({}), torch.tensor({}) == 1
u = F.normalize(x[keep], dim=1)
same = samples[keep][:, None] == samples[keep]
same.fill_diagonal_(False)
s = (u @ u.T / 0.2).masked_fill(torch.eye(len(u)) == 1, -float('inf'))
positives = s.log_softmax(1).masked_fill(~same, 0).sum(1) / same.sum(1).clamp(min=1)
loss = -positives.sum()
(loss / {}).backward()
print(loss.item())
for g in x.grad.flatten(): print(g.item())
)",
                                        of.x, kSlots, kWidth, of.samples, of.valid, kDivisor));
}

TEST(InfoNce, FollowsPyTorch) {
  Embeddings batch;
  const LossSums sums = info_nce()->evaluate(batch.all());
  EXPECT_EQ(sums.num_valid, 13);
  const auto theirs = in_pytorch(batch);
  if (!theirs) GTEST_SKIP() << "no Python with torch";
  ASSERT_EQ(theirs->size(), 1 + batch.gradient.size());
  EXPECT_NEAR(sums.loss, theirs->front(), 2e-5);
  for (std::size_t i = 0; i < batch.gradient.size(); ++i)
    ASSERT_NEAR(static_cast<double>(batch.gradient[i]), (*theirs)[i + 1], 2e-7) << i;
}

/// Slots of each rank; 0: a rank without a batch.
using Parts = std::vector<std::size_t>;

LossSums on_ranks(const Parts& parts, Embeddings& batch) {
  const auto group = make_thread_collectives(static_cast<int>(parts.size()));
  std::vector<LossSums> sums(parts.size());
  std::vector<std::jthread> ranks;
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    ranks.emplace_back([&, rank, first] {
      sums[rank] = info_nce()->evaluate(batch.part(first, parts[rank], group[rank].get()));
    });
    first += parts[rank];
  }
  ranks.clear();
  LossSums all;
  for (const LossSums& one : sums) all += one;
  return all;
}

TEST(InfoNce, IsThatOfTheWholeBatchOnAnyRanks) {
  Embeddings whole;
  const LossSums expected = info_nce()->evaluate(whole.all());
  for (const Parts& parts : {Parts{14}, {7, 7}, {3, 0, 9, 2}, {0, 14}, {1, 1, 12}}) {
    Embeddings batch;
    const LossSums sums = on_ranks(parts, batch);
    EXPECT_NEAR(sums.loss, expected.loss, 1e-12) << fmt::format("{}", parts);
    EXPECT_EQ(sums.top1, expected.top1);
    EXPECT_EQ(sums.top5, expected.top5);
    EXPECT_EQ(batch.gradient, whole.gradient) << fmt::format("{}", parts);
  }
}

TEST(InfoNce, CountsSlotsWhosePositivesAreNearest) {
  Embeddings batch;
  batch.x = {1, 0, 0, 0, 0, 0, 2, .1F, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 3, .1F, 0, 0, 0};
  batch.samples = {1, 1, 2, 2};
  batch.valid = {1, 1, 1, 1};
  LossInput input = batch.part(0, 4, nullptr);
  EXPECT_EQ(info_nce()->evaluate(input).top1, 4);
  std::ranges::fill(batch.x, 1.0F);
  const LossSums alike = info_nce()->evaluate(input);
  EXPECT_EQ(alike.top1, 0) << "embeddings that are all alike tell nothing apart";
  EXPECT_EQ(alike.top5, 4);
  EXPECT_NEAR(alike.loss, 4 * std::log(3), 1e-5);
}

TEST(InfoNce, AnEmbeddingOfZerosHasNoGradient) {
  Embeddings batch;
  std::fill_n(batch.x.begin(), kWidth, 0.0F);
  EXPECT_TRUE(std::isfinite(info_nce()->evaluate(batch.all()).loss));
  for (std::size_t i = 0; i < batch.gradient.size(); ++i)
    ASSERT_TRUE(std::isfinite(batch.gradient[i]) && (i >= kWidth || batch.gradient[i] == 0)) << i;
}

std::string refusal(Embeddings& batch) {
  try {
    info_nce()->evaluate(batch.all());
  } catch (const Error& error) {
    return std::string(error.message());
  }
  return {};
}

TEST(InfoNce, RefusesAStepThatHasNothingToCompare) {
  Embeddings batch;
  std::ranges::fill(batch.valid, std::uint8_t{1});
  std::iota(batch.samples.begin(), batch.samples.end(), 1);
  EXPECT_THAT(refusal(batch), HasSubstr("no two of the step's 14 slots are of the same sample"));
  std::ranges::fill(batch.samples, 1);
  EXPECT_THAT(refusal(batch), HasSubstr("all of the step's 14 slots are of one sample"));
}

TEST(InfoNce, IsZeroInTheLastStepOfAnEpochThatHasNothingToCompare) {
  Embeddings batch;
  std::iota(batch.samples.begin(), batch.samples.end(), 1);
  EXPECT_EQ(info_nce()->evaluate(batch.all()).loss, 0);
  for (const float slope : batch.gradient) ASSERT_EQ(slope, 0.0F);
}

TEST(InfoNce, NamesAWrongTemperatureAndWrongShapes) {
  EXPECT_THROW(parse("infonce(temperature=0)", standard_losses()), Mistake);
  EXPECT_THROW(parse("infonce(-1)", standard_losses()), Mistake);
  Embeddings batch;
  LossInput input = batch.all();
  input.prediction.shape = {2, 7, 6};
  EXPECT_THROW(info_nce()->evaluate(input), Error);
}

/// Embeddings of four values; samples are told apart by their class.
LossObjective contrast() {
  return LossObjective({.inputs = {"x"}, .heads = {{.loss = losses::InfoNce{}}}});
}

// In the last round the second rank has no batch, or masked slots alone.
TEST(InfoNce, ARankWithoutASampleTakesPart) {
  for (const bool is_unequal : {true, false}) {
    testing::LinearRun run({.world = 2, .batch_size = 16, .samples = 72, .val_samples = 40});
    run.train.is_unequal = is_unequal;
    const LossObjective objective = contrast();
    const FitResult result = fit({.model = run.model,
                                  .objective = objective,
                                  .train = run.train,
                                  .validation = &run.val,
                                  .devices = run.devices},
                                 {.epochs = 6});
    const auto loss = [&](std::size_t epoch) {
      return *find_value(result.epochs.at(epoch).train, "loss");
    };
    EXPECT_LT(loss(5), loss(0));
    EXPECT_EQ(result.epochs.back().train_samples, 72);
    EXPECT_TRUE(find_value(result.epochs.back().val, "top1").has_value());
  }
}

}  // namespace info_nce_test
}  // namespace millrace::trainer
