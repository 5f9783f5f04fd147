#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "decode/array.h"
#include "io/base/error.h"
#include "io/base/rng.h"
#include "tests/trainer/nn_support.h"
#include "trainer/models/models.h"
#include "trainer/nn/arena_layout.h"
#include "trainer/nn/plan.h"

namespace millrace::trainer::nn {
namespace {

Graph small_resnet() { return build_model("resnet18(stem=3x3)", {.num_classes = 10, .image = 16}); }

Graph small_lenet() {
  return build_model("lenet", {.num_classes = 10, .in_channels = 1, .image = 28});
}

TEST(Plan, SaysWhichGradientsAreFinalFrontToBack) {
  Network network(small_resnet(), {.batch_size = 2});
  network.forward({random_values(2 * 16 * 16 * 3, 1)});
  network.backward(random_values(20, 2));
  const std::vector<float> whole(network.gradients().begin(), network.gradients().end());
  std::ranges::fill(network.gradients(), NAN);
  network.forward({random_values(2 * 16 * 16 * 3, 1)});
  std::vector<std::size_t> counts;
  network.plan().backward([&](std::size_t ready) {
    for (std::size_t i = counts.empty() ? 0 : counts.back(); i < ready; ++i) {
      ASSERT_TRUE(network.gradients()[i] == whole[i] || std::isnan(network.gradients()[i])) << i;
    }
    counts.push_back(ready);
  });
  EXPECT_GT(counts.size(), 30U);
  EXPECT_TRUE(std::ranges::is_sorted(counts));
  EXPECT_EQ(counts.back(), network.gradients().size());
}

TEST(Plan, SaysWhichParametersItNeedsBackToFront) {
  Network network(small_resnet(), {.batch_size = 2});
  const auto image = random_values(2 * 16 * 16 * 3, 1);
  const std::span<const std::byte> input = std::as_bytes(std::span(image));
  std::vector<std::size_t> offsets;
  network.plan().forward({&input, 1}, Mode::kEvaluate,
                         [&](std::size_t needed) { offsets.push_back(needed); });
  EXPECT_GT(offsets.size(), 30U);
  EXPECT_TRUE(std::ranges::is_sorted(offsets, std::greater<>()));
  EXPECT_EQ(0U, offsets.back());
  EXPECT_LT(offsets.front(), network.gradients().size());
}

TEST(Plan, GivesTheSameBitsForTheSameStep) {
  Network network(small_resnet(), {.batch_size = 4, .precision = Precision::kBFloat16});
  const auto image = random_values(4 * 16 * 16 * 3, 1);
  const auto by = random_values(40, 2);
  network.forward({image});
  network.backward(by);
  const std::vector<float> first(network.gradients().begin(), network.gradients().end());
  network.forward({image});
  network.backward(by);
  EXPECT_TRUE(std::ranges::equal(network.gradients(), first));
}

// Rounding must not carry into the sign, whatever bits a NaN of the input has.
TEST(Plan, KeepsAnyNaNInBfloat16) {
  GraphBuilder builder;
  const Value x = builder.input("image", {3, 8, 8});
  builder.output(
      "y", builder.flatten("flatten", builder.conv2d("conv", x, {.channels = 5, .kernel = 3})));
  Network network(builder.build(), {.batch_size = 1, .precision = Precision::kBFloat16});
  for (const std::uint32_t bits : {0x7FFFFFFFU, 0xFFFFFFFFU, 0x7FC00001U}) {
    std::vector<float> image(8 * 8 * 3, std::bit_cast<float>(bits));
    for (const float y : network.forward({image}).data) EXPECT_TRUE(std::isnan(y)) << bits;
  }
}

TEST(Plan, KeepsNoMemoryAfterTheFirstStep) {
  Network network(small_lenet(), {.batch_size = 8, .precision = Precision::kBFloat16});
  const auto image = random_values(8 * 28 * 28, 1);
  const std::span<const std::byte> input = std::as_bytes(std::span(image));
  const auto step = [&] {
    network.plan().forward({&input, 1}, Mode::kTrain);
    network.plan().backward(nullptr);
    network.plan().parameters_changed();
  };
  step();
  step();
  // A leak grows with every step. The allocator's per-thread caches vary now and then, so a few
  // rounds may grow, but not all.
  const auto grows = [&] {
    const std::size_t before = ::mallinfo2().uordblks;
    for (int i = 0; i < 5; ++i) step();
    return ::mallinfo2().uordblks > before;
  };
  int rounds = 0;
  while (grows()) ASSERT_LT(++rounds, 10);
}

TEST(Plan, EvaluatesWithRunningStatisticsAndDoesNotChangeThem) {
  Network network(small_resnet(), {.batch_size = 2});
  const std::vector<float> buffers(network.buffers().begin(), network.buffers().end());
  network.forward({random_values(2 * 16 * 16 * 3, 1)}, Mode::kEvaluate);
  EXPECT_TRUE(std::ranges::equal(network.buffers(), buffers));
  network.forward({random_values(2 * 16 * 16 * 3, 1)}, Mode::kTrain);
  const Parameter* counter = network.graph().buffers().find("bn1.num_batches_tracked");
  EXPECT_EQ(network.buffers()[counter->offset], 1.0F);
}

TEST(Plan, TakesBFloat16Inputs) {
  const Graph graph = small_lenet();
  const auto image = random_values(28 * 28, 1);
  std::vector<std::uint16_t> half;
  std::vector<float> rounded;
  for (const float value : image) {
    half.push_back(decode::to_bfloat16(value));
    rounded.push_back(decode::from_bfloat16(half.back()));
  }
  Network whole(small_lenet(), {});
  Network halved(small_lenet(), {.input_dtype = decode::DType::kBFloat16});
  const std::span<const std::byte> input = std::as_bytes(std::span(half));
  halved.plan().forward({&input, 1}, Mode::kEvaluate);
  const OutputView expected = whole.forward({rounded}, Mode::kEvaluate);
  EXPECT_LT(relative_error(halved.plan().output(0).data, expected.data), 1e-6);
}

// On every processor: a bf16 plan's outputs are float32, and its blocks of channels see bf16.
TEST(Plan, KeepsTheOutputsOfABFloat16PlanInFloat32) {
  GraphBuilder builder;
  const Value x = builder.input("image", {3, 8, 8});
  const Value image = builder.conv2d("conv", x, {.channels = 8, .kernel = 3, .padding = 1});
  builder.output("features", builder.batch_norm("norm", image));
  builder.output("logits",
                 builder.linear("linear", builder.flatten("flatten", image), {.features = 32}));
  Network network(builder.build(), {.batch_size = 4, .precision = Precision::kBFloat16});
  network.forward({random_values(4 * 8 * 8 * 3, 1)});
  const auto share_of_bfloat16 = [&](std::size_t output) {
    const std::span<const float> values = network.plan().output(output).data;
    const auto is_bfloat16 = [](float value) {
      return decode::from_bfloat16(decode::to_bfloat16(value)) == value;
    };
    return static_cast<double>(std::ranges::count_if(values, is_bfloat16)) /
           static_cast<double>(values.size());
  };
  EXPECT_EQ(share_of_bfloat16(0), 1.0);
  EXPECT_LT(share_of_bfloat16(1), 0.1);
}

TEST(Plan, TakesNewWeightsOnceToldThatTheyChanged) {
  Network network(small_lenet(), {});
  const auto image = random_values(28 * 28, 1);
  const std::span<const std::byte> input = std::as_bytes(std::span(image));
  const OutputView view = network.forward({image}, Mode::kEvaluate);
  const std::vector<float> before(view.data.begin(), view.data.end());
  for (float& w : network.parameters()) w *= 2;
  network.plan().parameters_changed();
  network.plan().forward({&input, 1}, Mode::kEvaluate);
  EXPECT_GT(relative_error(view.data, before), 0.1);
}

TEST(Plan, DropsByKeyAndOnlyInTraining) {
  GraphBuilder builder;
  const Value x = builder.input("features", {1000});
  builder.output("kept", builder.dropout("dropout", x, {.probability = 0.25F}));
  Network network(builder.build(), {.batch_size = 8});
  const std::vector<float> ones(8000, 1.0F);
  const auto run = [&](std::uint64_t step, Mode mode) {
    network.plan().set_random_key({.first = {.seed = 3, .index = step}});
    const OutputView view = network.forward({ones}, mode);
    return std::vector<float>(view.data.begin(), view.data.end());
  };
  const auto first = run(1, Mode::kTrain);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(first, 0.0F)) / 8000, 0.25, 0.02);
  EXPECT_EQ(*std::ranges::max_element(first), 1.0F / 0.75F);
  EXPECT_NE(run(2, Mode::kTrain), first);
  EXPECT_EQ(run(1, Mode::kTrain), first);
  EXPECT_EQ(run(1, Mode::kEvaluate), ones);
}

// Sample by sample, so that two devices of two processes drop what one device drops.
TEST(Plan, DropsByTheSamplesSlots) {
  const auto dropped = [](std::int64_t batch_size, const BatchKey& key) {
    GraphBuilder builder;
    const Value x = builder.input("features", {100});
    builder.output("kept", builder.dropout("dropout", x, {.probability = 0.5F}));
    Network network(builder.build(), {.batch_size = batch_size});
    network.plan().set_random_key(key);
    const OutputView view = network.forward(
        {std::vector<float>(static_cast<std::size_t>(batch_size) * 100, 1.0F)}, Mode::kTrain);
    return std::vector<float>(view.data.begin(), view.data.end());
  };
  const auto whole = dropped(8, {.first = {.seed = 3, .index = 40}});
  for (const std::uint64_t process : {0U, 1U}) {
    const auto half = dropped(4, {.first = {.seed = 3, .index = 40 + process}, .stride = 2});
    for (std::size_t i = 0; i < half.size(); ++i)
      ASSERT_EQ(whole[(i / 100 * 2 + process) * 100 + i % 100], half[i]) << process << " " << i;
  }
  EXPECT_FALSE(std::ranges::equal(std::span(whole).first(100), std::span(whole).subspan(100, 100)));
}

TEST(Plan, RefusesInputsOfTheWrongSize) {
  Network network(small_lenet(), {.batch_size = 2});
  EXPECT_THROW(network.forward({random_values(28 * 28, 1)}), Error);
  EXPECT_THROW(network.forward({}), Error);
}

TEST(Plan, NeedsLessMemoryWithoutAWayBack) {
  const Graph graph = small_resnet();
  std::vector<float> parameters(graph.parameters().padded_size());
  std::vector<float> gradients(parameters.size());
  std::vector<float> buffers(graph.buffers().padded_size());
  const PlanOptions options{.batch_size = 4};
  const auto both = compile(graph, options, {parameters, gradients, buffers});
  const auto forward_only = compile(graph, options, {parameters, {}, buffers});
  EXPECT_LT(3 * forward_only->activation_bytes(), both->activation_bytes());
}

TEST(Plan, IsRefusedIfItsActivationsAreLargerThanTheMachine) {
  const Graph graph = small_lenet();
  std::vector<float> parameters(graph.parameters().padded_size());
  std::vector<float> buffers(graph.buffers().padded_size());
  try {
    compile(graph, {.batch_size = 6'000'000}, {parameters, {}, buffers});
    FAIL() << "it was compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kExhausted);
    EXPECT_THAT(error.message(),
                ::testing::MatchesRegex("the activations of a batch take [0-9.]+ GiB, which this "
                                        "process cannot have .*"));
  }
}

// Evaluation leaves nothing out, and the weights have the same places.
TEST(Plan, LeavesBlocksOutInTrainingAlone) {
  const std::vector<float> images = random_values(2 * 16 * 16 * 3, 4);
  const auto outputs = [&](Network& network, Mode mode) {
    const auto values = network.forward({images}, mode).data;
    return std::vector<float>(values.begin(), values.end());
  };
  Network plain(small_resnet(), {.batch_size = 2});
  Network deep(
      build_model("resnet18(stem=3x3, stochastic_depth=0.9)", {.num_classes = 10, .image = 16}),
      {.batch_size = 2});
  EXPECT_EQ(outputs(plain, Mode::kEvaluate), outputs(deep, Mode::kEvaluate));
  EXPECT_NE(outputs(plain, Mode::kTrain), outputs(deep, Mode::kTrain));
}

TEST(ArenaLayout, SharesMemoryBetweenLivesThatDoNotMeet) {
  const std::vector<Lifetime> chain = {{1000, 0, 1}, {1000, 1, 2}, {1000, 2, 3}, {1000, 3, 4}};
  EXPECT_EQ(lay_out_arena(chain).total_bytes, 2048U);
}

TEST(ArenaLayout, NeverOverlapsLivesThatMeet) {
  KeyedRng rng({.seed = 5});
  std::vector<Lifetime> buffers;
  for (int i = 0; i < 200; ++i) {
    const int first = static_cast<int>(rng.below(100));
    buffers.push_back({rng.below(5000), first, first + static_cast<int>(rng.below(30))});
  }
  const ArenaLayout plan = lay_out_arena(buffers);
  for (std::size_t a = 0; a < buffers.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % 64, 0U);
    EXPECT_LE(plan.offsets[a] + buffers[a].bytes, plan.total_bytes);
    for (std::size_t b = 0; b < a; ++b) {
      if (buffers[a].last < buffers[b].first || buffers[b].last < buffers[a].first) continue;
      EXPECT_TRUE(plan.offsets[a] + buffers[a].bytes <= plan.offsets[b] ||
                  plan.offsets[b] + buffers[b].bytes <= plan.offsets[a]);
    }
  }
}

}  // namespace

}  // namespace millrace::trainer::nn
