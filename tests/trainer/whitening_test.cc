// Whitening filters: against PyTorch's eigenvectors, and as a run sets them.
#include "trainer/nn/whitening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/code_of.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/fakes.h"
#include "tests/trainer/nn_support.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/fit.h"
#include "trainer/models/models.h"
#include "trainer/weights.h"

namespace millrace::trainer {
namespace {

using testing::MemoryFeed;

constexpr std::int64_t kWhitenedSide = 8;
constexpr std::int64_t kWhitenedValues = 2 * kWhitenedSide * kWhitenedSide;
constexpr std::size_t kWhitenedPatch = 2 * 3 * 2;

/// A whitening convolution on (2, 8, 8), 3x2 kernels, before a linear layer.
nn::Graph whitened_graph(int samples = 0) {
  nn::GraphBuilder builder;
  nn::Value x = builder.input("image", {2, kWhitenedSide, kWhitenedSide});
  x = builder.conv2d("whiten", x,
                     {.channels = 2 * kWhitenedPatch,
                      .kernel = {3, 2},
                      .init = nn::Init::kWhitening,
                      .init_samples = samples,
                      .shared = {}});
  x = builder.relu("relu", x);
  builder.output("logits", builder.linear("fc", builder.flatten("flat", x), {.features = 3}));
  return builder.build();
}

std::vector<testing::FakeSample> correlated_samples(std::size_t count) {
  auto samples = testing::make_samples(count, kWhitenedValues, 3, 5);
  for (testing::FakeSample& sample : samples)
    for (std::size_t i = 1; i < sample.features.size(); ++i)
      sample.features[i] += 0.7F * sample.features[i - 1];
  return samples;
}

std::vector<float> filters_of(const std::vector<testing::FakeSample>& samples, std::size_t count) {
  const nn::Graph graph = whitened_graph();
  nn::PatchMoments moments(nn::whitening_layers(graph).at(0));
  for (std::size_t i = 0; i < count; ++i) moments.add(samples[i].features);
  return moments.filters();
}

/// Up to their signs.
void expect_same_filters(std::span<const float> expected, std::span<const float> ours,
                         double most) {
  ASSERT_EQ(expected.size(), ours.size());
  for (std::size_t row = 0; row < ours.size(); row += kWhitenedPatch) {
    double product = 0;
    for (std::size_t i = row; i < row + kWhitenedPatch; ++i)
      product += static_cast<double>(expected[i]) * static_cast<double>(ours[i]);
    const float sign = product < 0 ? -1.0F : 1.0F;
    for (std::size_t i = row; i < row + kWhitenedPatch; ++i)
      EXPECT_NEAR(expected[i], sign * ours[i], most)
          << row / kWhitenedPatch << ", " << i % kWhitenedPatch;
  }
}

TEST(Whitening, FiltersAreTheScaledEigenvectorsOfPatches) {
  const auto samples = correlated_samples(20);
  std::vector<float> images;
  for (const auto& sample : samples)
    images.insert(images.end(), sample.features.begin(), sample.features.end());
  const testing::TempDir folder;
  testing::write_values<float>(folder / "images.bin", images);
  const auto expected = testing::run_torch(
      "import numpy\n"
      "x = torch.from_numpy(numpy.fromfile('" +
      (folder / "images.bin") +
      "', 'float32')).double()\n"
      "x = x.reshape(20, 8, 8, 2).permute(0, 3, 1, 2)\n"
      "p = x.unfold(2, 3, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12)\n"
      "values, vectors = torch.linalg.eigh(p.T @ p / len(p))\n"
      "w = vectors.T / (values + 5e-4).sqrt()[:, None]\n"
      "for v in torch.cat([w, -w]).flatten().tolist(): print(repr(v))\n");
  if (!expected) GTEST_SKIP() << "no Python with torch";
  const std::vector<float> filters(expected->begin(), expected->end());
  expect_same_filters(filters, filters_of(samples, 20), 1e-4);
}

// The powers of the responses are 1 but for the constant in the denominator.
TEST(Whitening, ResponsesToThePatchesHaveEqualPowers) {
  const auto samples = correlated_samples(20);
  Network network(whitened_graph(), {.batch_size = 20, .precision = nn::Precision::kFloat32});
  const std::vector<float> filters = filters_of(samples, 20);
  double largest = 0;
  double least = 1e9;
  for (std::size_t filter = 0; filter < kWhitenedPatch; ++filter) {
    double power = 0;
    double count = 0;
    for (const auto& sample : samples)
      for (std::size_t y = 0; y + 3 <= kWhitenedSide; ++y)
        for (std::size_t x = 0; x + 2 <= kWhitenedSide; ++x, ++count) {
          double response = 0;
          for (std::size_t i = 0; i < kWhitenedPatch; ++i)
            response += static_cast<double>(
                filters[filter * kWhitenedPatch + i] *
                sample.features[((y + i / 2 % 3) * kWhitenedSide + x + i % 2) * 2 + i / 6]);
          power += response * response;
        }
    largest = std::max(largest, power / count);
    least = std::min(least, power / count);
  }
  EXPECT_NEAR(1.0, largest, 0.01);
  EXPECT_NEAR(1.0, least, 0.01);
}

TEST(Whitening, NeedsAPicture) {
  const nn::Graph graph = whitened_graph();
  const nn::PatchMoments none(nn::whitening_layers(graph).at(0));
  EXPECT_EQ(ErrorCode::kNotFound, testing::code_of([&] { none.filters(); }));
}

TEST(Whitening, IsForTheModelsInputAndTwoFiltersPerValue) {
  EXPECT_EQ(ErrorCode::kInvalidArgument, testing::code_of([] { whitened_graph(-1); }));
  const auto build = [](std::int64_t channels, bool on_input) {
    nn::GraphBuilder builder;
    nn::Value x = builder.input("image", {2, kWhitenedSide, kWhitenedSide});
    if (!on_input) x = builder.relu("relu", x);
    builder.conv2d("whiten", x,
                   {.channels = channels, .kernel = 2, .init = nn::Init::kWhitening, .shared = {}});
  };
  EXPECT_NO_THROW(build(16, true));
  EXPECT_EQ(ErrorCode::kInvalidArgument, testing::code_of([&] { build(12, true); }));
  EXPECT_EQ(ErrorCode::kInvalidArgument, testing::code_of([&] { build(16, false); }));
}

struct WhitenedRun {
  int devices = 1;
  std::int64_t epochs = 1;
  std::string resume = {};
  std::string init = {};
  double ema = 0.0;
  int samples = 0;  ///< nn::Conv2d::init_samples
};

/// Trains for steps of 12 samples; the weights in the last checkpoint of `folder`.
std::vector<float> train_whitened(const std::string& folder, const WhitenedRun& run) {
  const GraphModel model("m", whitened_graph(run.samples));
  const LossObjective objective({.inputs = {"x"}, .heads = {Head{}}});
  testing::LocalThreads devices(run.devices);
  MemoryFeed train(correlated_samples(36), 12 / run.devices, run.devices);
  fit({.model = model, .objective = objective, .train = train, .devices = devices},
      {.epochs = run.epochs,
       .precision = nn::Precision::kFloat32,
       .optimizer = {.rule = Sgd{.lr = 0.05, .groups = {{"whiten.weight", 0}}}},
       .ema_decay = run.ema,
       .init = run.init,
       .run_folder = folder,
       .resume = run.resume});
  return testing::weights_in(folder + "/checkpoints/last", model);
}

std::span<const float> whitening_part(std::span<const float> weights) {
  const nn::Graph graph = whitened_graph();
  const Parameter& entry = *graph.parameters().find("whiten.weight");
  return weights.subspan(entry.offset, entry.size);
}

TEST(Whitening, ARunTakesItsFiltersFromItsFirstStepOnAnyNumberOfDevices) {
  const testing::TempDir folder;
  const std::vector<float> expected = filters_of(correlated_samples(36), 12);
  const std::vector<float> one = train_whitened(folder / "one", {});
  expect_same_filters(expected, whitening_part(one), 1e-5);
  const std::vector<float> three = train_whitened(folder / "three", {.devices = 3});
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], three[i], 1e-4) << i;
}

TEST(Whitening, ARunTakesItsFiltersFromAsManySamplesAsItIsAskedFor) {
  const testing::TempDir folder;
  const auto samples = correlated_samples(36);
  for (const int devices : {1, 3}) {
    const std::string run = folder / (std::to_string(devices) + " devices");
    const auto weights = train_whitened(run, {.devices = devices, .samples = 29});
    expect_same_filters(filters_of(samples, 29), whitening_part(weights), 1e-5);
    const auto resumed =
        train_whitened(run, {.devices = devices, .epochs = 2, .resume = "auto", .samples = 29});
    const auto whole =
        train_whitened(run + ", whole", {.devices = devices, .epochs = 2, .samples = 29});
    EXPECT_EQ(whole, resumed) << "the steps begin with the epoch's first sample";
  }
  const auto few = train_whitened(folder / "few", {.ema = 0.9, .samples = 5});
  expect_same_filters(filters_of(samples, 5), whitening_part(few), 1e-5);
  const auto all = train_whitened(folder / "all", {.samples = 1000});
  expect_same_filters(filters_of(samples, 36), whitening_part(all), 1e-5);
}

TEST(Whitening, SamplesBeforeTheFirstStepAreReadInNoOtherOrder) {
  const testing::TempDir folder;
  const auto of_first_step = train_whitened(folder / "one", {.devices = 2});
  EXPECT_EQ(of_first_step, train_whitened(folder / "other", {.devices = 2, .samples = 12}));
}

TEST(Whitening, AResumedRunAndOneWithWeightsKeepTheirs) {
  const testing::TempDir folder;
  const std::vector<float> first = train_whitened(folder / "run", {.devices = 2});
  const std::vector<float> resumed =
      train_whitened(folder / "run", {.devices = 2, .epochs = 2, .resume = "auto"});
  EXPECT_TRUE(std::ranges::equal(whitening_part(first), whitening_part(resumed)));
  const std::vector<float> whole = train_whitened(folder / "whole", {.devices = 2, .epochs = 2});
  EXPECT_EQ(whole, resumed);
  const std::vector<float> started =
      train_whitened(folder / "other", {.init = folder / "run/checkpoints/last"});
  EXPECT_TRUE(std::ranges::equal(whitening_part(first), whitening_part(started)));
}

TEST(Whitening, TheEmaHasTheFiltersToo) {
  const testing::TempDir folder;
  const std::vector<float> weights = train_whitened(folder / "run", {.ema = 0.999});
  const GraphModel model("m", whitened_graph());
  std::vector<float> ema(model.parameters().padded_size());
  load_weights(folder / "run/checkpoints/last/ema.safetensors",
               {{.table = &model.parameters(), .values = ema}});
  for (std::size_t i = 0; i < whitening_part(ema).size(); ++i)
    EXPECT_NEAR(whitening_part(weights)[i], whitening_part(ema)[i], 1e-5) << i;
}

TEST(Whitening, StartValuesOfAirbench94ArePassedThrough) {
  const nn::Graph graph =
      build_model("airbench94(channels=[40, 8, 8])", {.num_classes = 10, .image = 32});
  std::vector<float> weights(graph.parameters().padded_size());
  std::vector<float> buffers(graph.buffers().padded_size());
  graph.initialise(3, weights, buffers);
  const auto values = [&](const char* name) {
    const Parameter& entry = *graph.parameters().find(name);
    return std::span<const float>(weights).subspan(entry.offset, entry.size);
  };
  const auto dirac = values("group1.conv1.weight");  // (40, 24, 3, 3)
  for (std::size_t i = 0; i < std::size_t{24} * 24 * 9; ++i)
    ASSERT_EQ(i / 216 == i % 216 / 9 && i % 9 == 4 ? 1.0F : 0.0F, dirac[i]) << i;
  EXPECT_NE(0.0F, dirac[24 * 216]) << "the others are random";
  const auto head = values("head.weight");
  double squares = 0;
  for (const float value : head) squares += static_cast<double>(value * value);
  EXPECT_NEAR(1.0 / 8, std::sqrt(squares / static_cast<double>(head.size())), 0.02);
}

}  // namespace
}  // namespace millrace::trainer
