// CLIP's loss and the learned temperature against PyTorch in float64, on one rank and on several.
#include "trainer/loss/clip.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "io/base/error.h"
#include "io/component/component_text.h"
#include "tests/trainer/nn_support.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/collectives.h"
#include "trainer/loss/info_nce.h"
#include "trainer/models/models.h"
#include "trainer/nn/logit_scale.h"
#include "trainer/nn/tie.h"
#include "trainer/optimizer.h"

namespace millrace::trainer {
namespace clip_test {

using ::testing::HasSubstr;

constexpr std::size_t kSlots = 12, kWidth = 5, kTowers = 2;
constexpr double kDivisor = 11;

/// One slot is masked; two pairs of slots are of one sample each.
struct Pairs {
  std::vector<float> x = random_values(kSlots * kTowers * kWidth, 6);
  std::vector<std::int64_t> samples = {7, -3, 1, 5, 6, 5, 11, 8, -3, 9, 10, 12};
  std::vector<std::uint8_t> valid = {1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1};
  std::vector<float> gradient = std::vector<float>(kSlots * kTowers * kWidth, 9.0F);

  /// Of the slots from `first` on.
  LossInput part(std::size_t first, std::size_t count, Collectives* group) {
    const std::size_t width = kTowers * kWidth;
    return {.prediction = {{static_cast<std::int64_t>(count), static_cast<std::int64_t>(width)},
                           std::span(x).subspan(first * width, count * width)},
            .target = {.labels = std::span(samples).subspan(first, count)},
            .valid = std::span(valid).subspan(first, count),
            .divisor = kDivisor,
            .gradient = std::span(gradient).subspan(first * width, count * width),
            .group = group};
  }
  LossInput all() { return part(0, kSlots, nullptr); }
};

std::unique_ptr<Loss> clip(bool learned) {
  return LossChoice(losses::Clip{.temperature = 0.3F, .learned = learned}).make();
}

/// The sum of the losses, then the gradients.
std::optional<std::vector<double>> in_pytorch(const Pairs& of, bool learned) {
  return testing::run_torch(fmt::format(R"(
import torch.nn.functional as F
x = torch.tensor({}, dtype=torch.float64).reshape({}, {}).requires_grad_()
samples, keep = torch.tensor({}), torch.tensor({}) == 1
u, v = x[keep].chunk(2, 1)
if {}: s = u @ v.T
else: s = F.normalize(u, dim=1) @ F.normalize(v, dim=1).T / 0.3
same = (samples[keep][:, None] == samples[keep]).double()
wanted = same / same.sum(1, keepdim=True)
loss = (F.cross_entropy(s, wanted, reduction='sum') + F.cross_entropy(s.T, wanted, reduction='sum')) / 2
(loss / {}).backward()
print(loss.item())
for g in x.grad.flatten(): print(g.item())
)",
                                        of.x, kSlots, kTowers * kWidth, of.samples, of.valid,
                                        learned ? "True" : "False", kDivisor));
}

TEST(Clip, FollowsPyTorch) {
  for (const bool learned : {false, true}) {
    Pairs batch;
    const LossSums sums = clip(learned)->evaluate(batch.all());
    EXPECT_EQ(sums.num_valid, 11);
    const auto theirs = in_pytorch(batch, learned);
    if (!theirs) GTEST_SKIP() << "no Python with torch";
    ASSERT_EQ(theirs->size(), 1 + batch.gradient.size());
    EXPECT_NEAR(sums.loss, theirs->front(), 2e-5);
    for (std::size_t i = 0; i < batch.gradient.size(); ++i)
      ASSERT_NEAR(static_cast<double>(batch.gradient[i]), (*theirs)[i + 1], 3e-7) << i;
  }
}

/// Slots of each rank; 0: a rank without a batch.
using Parts = std::vector<std::size_t>;

LossSums on_ranks(const Parts& parts, Pairs& batch) {
  const auto group = make_thread_collectives(static_cast<int>(parts.size()));
  std::vector<LossSums> sums(parts.size());
  std::vector<std::jthread> ranks;
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    ranks.emplace_back([&, rank, first] {
      sums[rank] = clip(false)->evaluate(batch.part(first, parts[rank], group[rank].get()));
    });
    first += parts[rank];
  }
  ranks.clear();
  LossSums all;
  for (const LossSums& one : sums) all += one;
  return all;
}

TEST(Clip, IsThatOfTheWholeBatchOnAnyRanks) {
  Pairs whole;
  const LossSums expected = clip(false)->evaluate(whole.all());
  for (const Parts& parts : {Parts{12}, {6, 6}, {3, 0, 7, 2}, {0, 12}, {1, 1, 10}}) {
    Pairs batch;
    const LossSums sums = on_ranks(parts, batch);
    EXPECT_NEAR(sums.loss, expected.loss, 1e-12) << fmt::format("{}", parts);
    EXPECT_EQ(sums.top1, expected.top1);
    EXPECT_EQ(sums.top5, expected.top5);
    EXPECT_EQ(batch.gradient, whole.gradient) << fmt::format("{}", parts);
  }
}

TEST(Clip, CountsImagesWhoseCaptionIsNearest) {
  Pairs batch;
  batch.x = {1,   0, 0, 0, 0, 1, .1F, 0, 0, 0, 0, 1, 0,  0, 0,
             .1F, 1, 0, 0, 0, 0, 0,   1, 0, 0, 0, 0, -1, 0, 0};
  batch.samples = {1, 2, 3};
  batch.valid = {1, 1, 1};
  EXPECT_EQ(clip(false)->evaluate(batch.part(0, 3, nullptr)).top1, 2);
  std::ranges::fill(batch.x, 1.0F);
  const LossSums alike = clip(false)->evaluate(batch.part(0, 3, nullptr));
  EXPECT_EQ(alike.top1, 0) << "embeddings that are all alike tell nothing apart";
  EXPECT_EQ(alike.top5, 3);
  EXPECT_NEAR(alike.loss, 3 * std::log(3), 1e-5);
}

std::string refusal(const LossInput& input) {
  try {
    clip(false)->evaluate(input);
  } catch (const Error& error) {
    return std::string(error.message());
  }
  return {};
}

TEST(Clip, RefusesAStepOfOneSampleAndWrongShapes) {
  Pairs batch;
  std::ranges::fill(batch.valid, std::uint8_t{1});
  std::ranges::fill(batch.samples, 1);
  EXPECT_THAT(refusal(batch.all()),
              HasSubstr("clip: all of the step's 12 slots are of one sample"));
  LossInput odd = batch.all();
  odd.prediction.shape = {12, 9};
  EXPECT_THAT(refusal(odd), HasSubstr("clip needs embeddings (N, 2 F)"));
  EXPECT_THROW(parse("clip(temperature=0)", standard_losses()), Mistake);
}

/// An image's features of 7 values and a text's of 4, each by a linear tower.
nn::Graph two_towers(float temperature) {
  nn::GraphBuilder builder;
  const nn::Value image = builder.input("image", {7});
  const nn::Value text = builder.input("text", {4});
  const nn::Value both =
      builder.concat("both", {builder.linear("visual", image, {.features = kWidth}),
                              builder.linear("textual", text, {.features = kWidth})});
  builder.output("embeddings",
                 builder.custom("logit_scale",
                                std::make_shared<nn::LogitScale>(
                                    nn::LogitScaleOptions{.temperature = temperature, .parts = 2}),
                                {both}));
  return builder.build();
}

/// Of embeddings of several inputs: the loss, and the gradients of `parameters` in their order.
std::vector<double> ours(Network& network, const Loss& loss,
                         const std::vector<std::vector<float>>& inputs,
                         const std::vector<std::string>& parameters,
                         std::span<const std::int64_t> samples) {
  const nn::OutputView output = network.forward(inputs);
  std::vector<float> slopes(output.data.size());
  const std::vector<std::uint8_t> valid(samples.size(), 1);
  const LossSums sums = loss.evaluate({.prediction = output,
                                       .target = {.labels = samples},
                                       .valid = valid,
                                       .divisor = static_cast<double>(samples.size()),
                                       .gradient = slopes});
  network.backward(slopes);
  std::vector<double> values = {sums.loss};
  for (const std::string& name : parameters)
    for (const float slope : network.gradient(name)) values.push_back(static_cast<double>(slope));
  return values;
}

std::vector<float> copied(std::span<const float> values) { return {values.begin(), values.end()}; }

void expect_near(const std::vector<double>& values, const std::vector<double>& wanted) {
  ASSERT_EQ(values.size(), wanted.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], wanted[i], 2e-5 * (1 + std::abs(wanted[i]))) << i;
}

TEST(LogitScale, TwoTowersLearnTheTemperatureThatPyTorchDoes) {
  Network network(two_towers(0.07F), {.batch_size = kSlots});
  EXPECT_NEAR(network.parameter("logit_scale.weight")[0], std::log(1 / 0.07), 1e-6);
  const std::vector<std::vector<float>> inputs = {random_values(kSlots * 7, 1),
                                                  random_values(kSlots * 4, 2)};
  std::vector<std::int64_t> samples(kSlots);
  for (std::size_t i = 0; i < kSlots; ++i) samples[i] = static_cast<std::int64_t>(i);
  const auto values =
      ours(network, *clip(true), inputs,
           {"logit_scale.weight", "visual.weight", "visual.bias", "textual.weight"}, samples);
  const auto theirs = testing::run_torch(fmt::format(
      R"(
import torch.nn.functional as F
def tensor(values, *shape): return torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_()
image, text = tensor({}, 12, 7), tensor({}, 12, 4)
wi, bi, wt, bt = tensor({}, 5, 7), tensor({}, 5), tensor({}, 5, 4), tensor({}, 5)
scale = tensor([{}], 1)
u, v = F.normalize(F.linear(image, wi, bi), dim=1), F.normalize(F.linear(text, wt, bt), dim=1)
logits, labels = scale.exp() * u @ v.T, torch.arange(12)
loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
loss.backward()
print(12 * loss.item())
for one in (scale, wi, bi, wt):
  for g in one.grad.flatten(): print(g.item())
)",
      inputs[0], inputs[1], copied(network.parameter("visual.weight")),
      copied(network.parameter("visual.bias")), copied(network.parameter("textual.weight")),
      copied(network.parameter("textual.bias")), network.parameter("logit_scale.weight")[0]));
  if (!theirs) GTEST_SKIP() << "no Python with torch";
  expect_near(values, *theirs);
}

nn::Graph one_tower() {
  nn::GraphBuilder builder;
  const nn::Value x = builder.input("x", {7});
  builder.output("embeddings", builder.linear("fc", x, {.features = kWidth}));
  return nn::with_logit_scale(builder.build(), {.temperature = 0.1F});
}

TEST(LogitScale, ViewsOfOneTowerDoToo) {
  Network network(one_tower(), {.batch_size = kSlots});
  const std::vector<float> x = random_values(kSlots * 7, 3);
  std::vector<std::int64_t> samples(kSlots);
  for (std::size_t i = 0; i < kSlots; ++i) samples[i] = static_cast<std::int64_t>(i / 2);
  const auto loss = LossChoice(losses::InfoNce{.learned = true}).make();
  const auto values = ours(network, *loss, {x}, {"logit_scale.weight", "fc.weight"}, samples);
  const auto theirs = testing::run_torch(fmt::format(
      R"(
import torch.nn.functional as F
def tensor(values, *shape): return torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_()
x, w, b, scale = tensor({}, 12, 7), tensor({}, 5, 7), tensor({}, 5), tensor([{}], 1)
u = F.normalize(F.linear(x, w, b), dim=1)
logits = (scale.exp() * u @ u.T).masked_fill(torch.eye(12) == 1, -float('inf'))
loss = F.cross_entropy(logits, torch.arange(12) ^ 1)
loss.backward()
print(12 * loss.item())
for one in (scale, w):
  for g in one.grad.flatten(): print(g.item())
)",
      x, copied(network.parameter("fc.weight")), copied(network.parameter("fc.bias")),
      network.parameter("logit_scale.weight")[0]));
  if (!theirs) GTEST_SKIP() << "no Python with torch";
  expect_near(values, *theirs);
}

TEST(LogitScale, StaysBetweenZeroAndTheLogarithmOfAHundred) {
  const nn::Graph graph = one_tower();
  const ParameterTable& table = graph.parameters();
  const Optimizer optimizer({.rule = Sgd{.momentum = 0}}, table);
  std::vector<float> weights(table.padded_size(), 1.0F);
  std::vector<float> gradients(table.padded_size(), -9.0F);
  const std::size_t at = table.find("logit_scale.weight")->offset;
  const auto step = [&] {
    optimizer.update({.weights = weights, .gradients = gradients, .lr = 1}, {0, weights.size()});
    return weights[at];
  };
  EXPECT_FLOAT_EQ(step(), std::log(100.0F));
  EXPECT_FLOAT_EQ(weights[table.find("fc.weight")->offset], 10.0F) << "others have no bounds";
  std::ranges::fill(gradients, 1.0F);
  EXPECT_FLOAT_EQ(step(), std::log(100.0F) - 1) << "it comes back at once";
  std::ranges::fill(gradients, 9.0F);
  EXPECT_EQ(step(), 0);
  EXPECT_FALSE(table.find("logit_scale.weight")->decay);
}

TEST(LogitScale, IsALayerBehindAnyModelsEmbeddings) {
  const nn::Graph plain = build_model("lenet", {.num_classes = 6, .in_channels = 1, .image = 28});
  const nn::Graph scaled = nn::with_logit_scale(plain, {});
  EXPECT_EQ(scaled.parameters().entries().size(), plain.parameters().entries().size() + 1);
  EXPECT_EQ(scaled.parameters().head(), plain.parameters().head()) << "one number is no head";
  EXPECT_EQ(scaled.outputs().size(), 1U);
  Network one(plain, {.batch_size = 2});
  Network other(scaled, {.batch_size = 2});
  EXPECT_TRUE(std::ranges::equal(one.parameter("fc1.weight"), other.parameter("fc1.weight")))
      << "start values are those of the model alone";
  EXPECT_THROW(nn::with_logit_scale(plain, {.temperature = 0.001F}), Error);
  EXPECT_THROW(nn::with_logit_scale(plain, {.parts = 4}), Error) << "6 values are no 4 embeddings";
}

}  // namespace clip_test
}  // namespace millrace::trainer
