// Masks of classes: their loss and their measures, against plain references and PyTorch.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "io/base/error.h"
#include "tests/trainer/fakes.h"
#include "tests/trainer/nn_support.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/evaluate.h"
#include "trainer/log_lines.h"
#include "trainer/loss/pixel_cross_entropy.h"
#include "trainer/metrics.h"
#include "trainer/models/models.h"
#include "trainer/objective.h"
#include "trainer/weights.h"

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<float> kWeights = {0.5F, 2.0F, 1.0F, 0.1F};
constexpr std::size_t kSlots = 3;
constexpr std::size_t kMaskClasses = 4;
constexpr std::size_t kHeight = 23;
constexpr std::size_t kMaskWidth = 31;  // more pixels than one chunk
constexpr std::size_t kPixels = kHeight * kMaskWidth;

struct MaskProblem {
  std::vector<float> logits = random_values(kSlots * kMaskClasses * kPixels, 1);
  std::vector<std::int64_t> labels;
  std::vector<std::uint8_t> valid = {1, 0, 1};
  std::vector<float> gradient = std::vector<float>(logits.size(), 9.0F);

  MaskProblem() {
    KeyedRng rng({.seed = 3});
    for (std::size_t i = 0; i < kSlots * kPixels; ++i) {
      const auto label = static_cast<std::int64_t>(rng.below(kMaskClasses + 1));
      labels.push_back(label == kMaskClasses ? 255 : label);
    }
  }
  LossInput input() {
    return {.prediction = {{kSlots, kMaskClasses, kHeight, kMaskWidth}, logits},
            .target = {.labels = labels},
            .valid = valid,
            .divisor = 2,
            .gradient = gradient};
  }
  double logit(std::size_t slot, std::size_t k, std::size_t pixel) const {
    return static_cast<double>(logits[(slot * kMaskClasses + k) * kPixels + pixel]);
  }
};

/// The formula, in double precision.
double reference(const MaskProblem& problem, const losses::PixelCrossEntropy& options) {
  double total = 0;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    if (problem.valid[slot] == 0) continue;
    double loss = 0;
    double weights = 0;
    std::vector<double> both(kMaskClasses), predicted(kMaskClasses), wanted(kMaskClasses);
    for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
      const std::int64_t label = problem.labels[slot * kPixels + pixel];
      if (label == 255) continue;
      double sum = 0;
      for (std::size_t k = 0; k < kMaskClasses; ++k) sum += std::exp(problem.logit(slot, k, pixel));
      const auto weight = [&](std::size_t k) {
        return options.class_weights.empty() ? 1.0 : static_cast<double>(options.class_weights[k]);
      };
      const auto own = static_cast<std::size_t>(label);
      for (std::size_t k = 0; k < kMaskClasses; ++k) {
        const double nll = std::log(sum) - problem.logit(slot, k, pixel);
        const auto smoothing = static_cast<double>(options.label_smoothing);
        loss += weight(k) * nll * (smoothing / kMaskClasses + (k == own ? 1 - smoothing : 0.0));
        predicted[k] += std::exp(-nll);
        if (k == own) both[k] += std::exp(-nll);
      }
      weights += weight(own);
      wanted[own] += 1;
    }
    double dice = 0;
    for (std::size_t k = 0; k < kMaskClasses; ++k)
      dice += (2 * both[k] + 1) / (predicted[k] + wanted[k] + 1) / kMaskClasses;
    total += loss / weights + static_cast<double>(options.dice) * (1 - dice);
  }
  return total;
}

std::vector<losses::PixelCrossEntropy> all_options() {
  return {{},
          {.label_smoothing = 0.2F},
          {.class_weights = kWeights},
          {.label_smoothing = 0.1F, .class_weights = kWeights},
          {.dice = 0.7F}};
}

TEST(PixelCrossEntropy, AgreesWithItsFormula) {
  for (const losses::PixelCrossEntropy& options : all_options()) {
    MaskProblem problem;
    const LossSums sums = LossChoice(options).make()->evaluate(problem.input());
    EXPECT_NEAR(sums.loss, reference(problem, options), 1e-5);
    EXPECT_EQ(sums.num_valid, 2);
  }
}

TEST(PixelCrossEntropy, GradientAgreesWithFiniteDifferences) {
  for (const losses::PixelCrossEntropy& options : all_options()) {
    MaskProblem problem;
    LossChoice(options).make()->evaluate(problem.input());
    for (std::size_t i = 0; i < problem.logits.size(); i += 97) {
      const float kept = problem.logits[i];
      problem.logits[i] = kept + 1e-2F;
      const double above = reference(problem, options);
      problem.logits[i] = kept - 1e-2F;
      const double below = reference(problem, options);
      problem.logits[i] = kept;
      const double step = (above - below) / 2e-2 / 2;
      EXPECT_NEAR(static_cast<double>(problem.gradient[i]), step, 1e-5 + 1e-2 * std::abs(step))
          << i;
    }
  }
}

TEST(PixelCrossEntropy, IgnoredPixelsAndMaskedSlotsGetNothing) {
  MaskProblem problem;
  std::fill_n(problem.labels.begin() + 2 * kPixels, kPixels, 255);
  const auto loss = LossChoice(losses::PixelCrossEntropy{.dice = 1.0F}).make();
  loss->evaluate(problem.input());
  for (std::size_t i = 0; i < problem.gradient.size(); ++i) {
    const std::size_t slot = i / (kMaskClasses * kPixels);
    const std::int64_t label = problem.labels[slot * kPixels + i % kPixels];
    if (slot > 0 || label == 255) {
      ASSERT_EQ(problem.gradient[i], 0.0F) << i;
    }
  }
  problem.labels[5] = 4;
  EXPECT_THROW(loss->evaluate(problem.input()), Error);
  EXPECT_EQ(first_bad_label(problem.labels, problem.valid, kMaskClasses, 255), 5U);
}

TEST(PixelCrossEntropy, AgreesWithPyTorchPictureByPicture) {
  for (const losses::PixelCrossEntropy& options : all_options()) {
    if (options.dice > 0) continue;
    MaskProblem problem;
    problem.valid = {1, 0, 0};
    const double ours = LossChoice(options).make()->evaluate(problem.input()).loss;
    const std::vector<float> weights =
        options.class_weights.empty() ? std::vector<float>(kMaskClasses, 1.0F) : kWeights;
    const auto theirs = testing::run_torch(fmt::format(
        "x = torch.tensor({}).reshape(1, {}, {}, {}).requires_grad_()\n"
        "y = torch.tensor({}).reshape(1, {}, {})\n"
        "loss = torch.nn.functional.cross_entropy(x, y, weight=torch.tensor({}, "
        "dtype=torch.float32), "
        "ignore_index=255, label_smoothing={})\n"
        "(loss / 2).backward()\n"
        "print(loss.item())\n"
        "for g in x.grad.flatten()[::50]: print(g.item())\n",
        std::vector<float>(problem.logits.begin(), problem.logits.begin() + kMaskClasses * kPixels),
        kMaskClasses, kHeight, kMaskWidth,
        std::vector<std::int64_t>(problem.labels.begin(), problem.labels.begin() + kPixels),
        kHeight, kMaskWidth, weights, options.label_smoothing));
    if (!theirs) GTEST_SKIP() << "no Python with torch";
    EXPECT_NEAR(ours, theirs->front(), 1e-5);
    for (std::size_t i = 1; i < theirs->size(); ++i)
      ASSERT_NEAR(static_cast<double>(problem.gradient[(i - 1) * 50]), (*theirs)[i], 1e-7);
  }
}

TEST(ClassCounts, AreAPlainCountOfPixels) {
  ClassCounts counts(3);
  // Pixels: right 0; 2 predicted as 1; ignored; 1 and 2 equal, of which the first is predicted.
  counts.add(std::vector<float>{5, 0, 9, 0, /**/ 1, 4, 0, 2, /**/ 0, 1, 0, 2},
             std::vector<std::int64_t>{0, 2, 255, 1}, 255);
  EXPECT_EQ(counts.both, (std::vector<double>{1, 1, 0}));
  EXPECT_EQ(counts.predicted, (std::vector<double>{1, 2, 0}));
  EXPECT_EQ(counts.wanted, (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(class_ious(counts), (std::vector<double>{1.0, 0.5, 0.0}));
  EXPECT_DOUBLE_EQ(mean_iou(counts), 0.5);
  ClassCounts absent(2);
  absent.add(std::vector<float>{1, 0}, std::vector<std::int64_t>{0}, 255);
  EXPECT_TRUE(std::isnan(class_ious(absent)[1]));
  EXPECT_EQ(mean_iou(absent), 1.0) << "a class that never occurs is left out";
}

TEST(Segmentation, MeasuresAreTheSameToTheBitOnAnyNumberOfDevices) {
  constexpr std::int64_t kFeatures = 5;
  const testing::TempDir folder;
  testing::LinearModel model(kFeatures, kMaskClasses);
  std::vector<float> weights(model.parameters().padded_size());
  std::vector<float> buffers(model.buffers().padded_size());
  model.initialise(5, weights, buffers);
  save_weights(folder / "w.safetensors", {{.table = &model.parameters(), .values = weights},
                                          {.table = &model.buffers(), .values = buffers}});
  auto samples = testing::make_samples(61, kFeatures, kMaskClasses, 1);
  for (std::size_t i = 0; i < samples.size(); i += 7) samples[i].label = 255;
  const LossObjective objective({.inputs = {"x"},
                                 .heads = {{.loss = losses::PixelCrossEntropy{},
                                            .classes = kMaskClasses,
                                            .class_names = {"sky", "road"},
                                            .metrics = {Metric::kMiou, Metric::kPixelAccuracy}}}});
  EXPECT_EQ(objective.measures(), (std::vector<std::string>{"loss", "miou", "pixel_accuracy"}));
  NamedValues first;
  for (const int world : {1, 2, 3}) {
    const device::DeviceSet set = device::DeviceSet::cpu(world);
    DeviceThreads devices(set);
    testing::MemoryFeed feed(samples, 4, world);
    const EvalResult result =
        evaluate({.model = model, .objective = objective, .feed = feed, .devices = devices},
                 {.precision = nn::Precision::kFloat32, .weights = folder / "w.safetensors"});
    EXPECT_EQ(result.samples, 61);
    NamedValues counted = result.values;
    counted.erase(counted.begin());  // the loss is a sum of floats
    if (world == 1) first = counted;
    EXPECT_EQ(counted, first) << world;
  }
  EXPECT_EQ(first[2].first, "iou/sky");
  EXPECT_EQ(first[4].first, "iou/2");
  double sum = 0;
  for (std::size_t k = 0; k < kMaskClasses; ++k) sum += first[2 + k].second;
  EXPECT_DOUBLE_EQ(sum / kMaskClasses, first[0].second);
}

TEST(Segmentation, TheEvaluationsLineTellsEachClass) {
  EpochEvent event;
  event.epoch = 3;
  event.val = {{"loss", 0.5}, {"miou", 0.25}, {"iou/sky", 0.5}, {"iou/1", 0.0}};
  event.train = event.val;
  EXPECT_THAT(epoch_end_line(event, "12:00:00"), Not(HasSubstr("sky"))) << "evaluation's own line";
  EXPECT_EQ(
      evaluation_line(event, "12:00:00"),
      "Epoch 3 test end 12:00:00, loss=0.50000, miou=25.00%, Test Samples=0, Test Time=0.0 s\n"
      "Epoch 3 IoU by class: sky=50.00%, 1=0.00%");
}

TEST(Unet, HasTheOutputsThatAreAskedFor) {
  const auto outputs = [](std::int64_t mask, std::int64_t depth) {
    const nn::Graph graph =
        build_model("unet", {.image = {64, 96}, .mask_channels = mask, .depth_channels = depth});
    std::vector<std::string> texts;
    for (const auto& output : graph.outputs())
      texts.push_back(output.name + " " + nn::shape_text(graph.node(output.value).shape));
    return texts;
  };
  EXPECT_THAT(outputs(1, 1), ::testing::ElementsAre("mask (1, 64, 96)", "depth (1, 64, 96)"));
  EXPECT_THAT(outputs(11, 0), ::testing::ElementsAre("mask (11, 64, 96)"));
  EXPECT_THAT(outputs(0, 1), ::testing::ElementsAre("depth (1, 64, 96)"));
}

}  // namespace
}  // namespace millrace::trainer
