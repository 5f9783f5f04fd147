// CLIP's two towers against PyTorch, and recalls of a whole set against a search one by one.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "tests/trainer/nn_support.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/loss/clip.h"
#include "trainer/models/text_tower.h"
#include "trainer/nn/logit_scale.h"
#include "trainer/nn/token_embedding.h"
#include "trainer/retrieval_objective.h"

namespace millrace::trainer {
namespace two_towers_test {

using ::testing::HasSubstr;

constexpr std::size_t kPairs = 6, kLength = 5, kPixels = 7;
constexpr models::TextTower kTower = {
    .length = kLength, .vocabulary = 11, .width = 8, .depth = 1, .heads = 2, .features = 4};

nn::Graph image_tower() {
  nn::GraphBuilder builder;
  builder.output("logits", builder.linear("fc", builder.input("image", {kPixels}),
                                          {.features = kTower.features}));
  return builder.build();
}

std::vector<float> some_tokens() {
  std::vector<float> tokens;
  for (std::size_t i = 0; i < kPairs * kLength; ++i)
    tokens.push_back(static_cast<float>(i * i % 11));
  return tokens;
}

/// Each text's last tokens are none: 0 of the first one, 1 of the second, ...
std::vector<float> some_texts() {
  std::vector<float> tokens = some_tokens();
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = i % kLength + i / kLength % kLength < kLength ? 1 + tokens[i] / 2 : 0;
  std::ranges::transform(tokens, tokens.begin(), [](float token) { return std::floor(token); });
  return tokens;
}

models::TextTower masked_tower() {
  models::TextTower tower = kTower;
  tower.masked = true;
  return tower;
}

const char* python_flag(bool flag) { return flag ? "True" : "False"; }

/// As OpenAI's and OpenCLIP's.
models::TextTower ending_tower() {
  models::TextTower tower = masked_tower();
  tower.pool = models::TextPool::kEnd;
  tower.causal = true;
  return tower;
}

/// Compares with PyTorch's, whose attention leaves out tokens of number 0 if the tower's does.
void compare_towers(const models::TextTower& tower, const std::vector<float>& texts) {
  Network network(nn::with_logit_scale(models::with_text_tower(image_tower(), tower),
                                       {.temperature = 0.1F, .parts = 2}),
                  {.batch_size = kPairs});
  // Start values of deviation 0.02 would leave little to compare.
  std::uint64_t seed = 20;
  for (const Parameter& one : network.graph().parameters().entries())
    if (one.name != "logit_scale.weight")
      std::ranges::transform(random_values(network.parameter(one.name).size(), ++seed),
                             network.parameter(one.name).begin(),
                             [](float value) { return value / 2; });
  const std::vector<std::vector<float>> inputs = {random_values(kPairs * kPixels, 1), texts};
  std::vector<std::int64_t> samples(kPairs);
  for (std::size_t i = 0; i < kPairs; ++i) samples[i] = static_cast<std::int64_t>(i);
  const nn::OutputView output = network.forward(inputs);
  std::vector<float> slopes(output.data.size());
  const std::vector<std::uint8_t> valid(kPairs, 1);
  const LossSums sums = LossChoice(losses::Clip{.learned = true})
                            .make()
                            ->evaluate({.prediction = output,
                                        .target = {.labels = samples},
                                        .valid = valid,
                                        .divisor = static_cast<double>(kPairs),
                                        .gradient = slopes});
  network.backward(slopes);

  std::string weights;
  std::vector<double> ours = {sums.loss};
  for (const Parameter& one : network.graph().parameters().entries()) {
    const std::span<float> values = network.parameter(one.name);
    weights +=
        fmt::format("w['{}'] = tensor({}, {})\n", one.name,
                    std::vector<float>(values.begin(), values.end()), fmt::join(one.shape, ", "));
    for (const float slope : network.gradient(one.name)) ours.push_back(static_cast<double>(slope));
  }
  const auto theirs = testing::run_torch(fmt::format(
      R"(
import torch.nn.functional as F
def tensor(values, *shape): return torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_()
w = {{}}
{}
image, text = tensor({}, {}, {}), torch.tensor({}).long().reshape({}, {})
u = F.linear(image, w['fc.weight'], w['fc.bias'])
x = F.embedding(text, w['text.embedding.weight'])
x = torch.cat([w['text.class_token'].expand(len(x), 1, 8), x], 1) + w['text.positions']
block = torch.nn.TransformerEncoderLayer(8, 2, 32, dropout=0, activation='gelu', layer_norm_eps=1e-6, batch_first=True, norm_first=True).double()
l = 'text.layers.0.'
names = {{'self_attn.in_proj_weight': 'self_attention.in_proj_weight', 'self_attn.in_proj_bias': 'self_attention.in_proj_bias',
         'self_attn.out_proj.weight': 'self_attention.out_proj.weight', 'self_attn.out_proj.bias': 'self_attention.out_proj.bias',
         'norm1.weight': 'ln_1.weight', 'norm1.bias': 'ln_1.bias', 'norm2.weight': 'ln_2.weight', 'norm2.bias': 'ln_2.bias',
         'linear1.weight': 'mlp.0.weight', 'linear1.bias': 'mlp.0.bias', 'linear2.weight': 'mlp.3.weight', 'linear2.bias': 'mlp.3.bias'}}
block.load_state_dict({{theirs: w[l + own].detach() for theirs, own in names.items()}})
for theirs, own in names.items(): w[l + own] = block.get_parameter(theirs)
block.train()
padding = torch.cat([torch.zeros(len(x), 1).bool(), (text == 0) & {}], 1)
causal = torch.ones(x.shape[1], x.shape[1]).triu(1).bool() if {} else None
x = block(x, src_mask=causal, src_key_padding_mask=padding)
last = ((text != 0) * torch.arange(1, text.shape[1] + 1)).max(1).values if {} else 0
x = x[torch.arange(len(x)), last]
v = F.linear(F.layer_norm(x, (8,), w['text.ln.weight'], w['text.ln.bias'], 1e-6), w['text.projection.weight'])
logits, labels = w['logit_scale.weight'].exp() * F.normalize(u, dim=1) @ F.normalize(v, dim=1).T, torch.arange(6)
loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
loss.backward()
print(6 * loss.item())
for one in w.values():
  for g in one.grad.flatten(): print(g.item())
)",
      weights, inputs[0], kPairs, kPixels, inputs[1], kPairs, kLength, python_flag(tower.masked),
      python_flag(tower.causal), python_flag(tower.pool == models::TextPool::kEnd)));
  if (!theirs) GTEST_SKIP() << "no Python with torch";
  ASSERT_EQ(ours.size(), theirs->size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_NEAR(ours[i], (*theirs)[i], 2e-5 * (1 + std::abs((*theirs)[i]))) << i;
}

TEST(TwoTowers, ComputeWhatPyTorchDoes) { compare_towers(kTower, some_tokens()); }

TEST(TwoTowers, ComputeWhatPyTorchDoesWithAMask) { compare_towers(masked_tower(), some_texts()); }

TEST(TwoTowers, ComputeWhatPyTorchDoesOfTheLastToken) {
  compare_towers(ending_tower(), some_texts());
  models::TextTower both_ways = ending_tower();
  both_ways.causal = false;
  std::vector<float> texts = some_texts();
  std::fill_n(texts.begin() + kLength, kLength, 0.0F);  // one without a token
  compare_towers(both_ways, texts);
}

// What is behind the last token of a causal tower changes nothing, masked or not.
TEST(TwoTowers, TheLastTokenIsThatBeforeTheZeros) {
  models::TextTower longer = ending_tower();
  longer.length = kLength + 2;
  longer.masked = false;
  Network network(models::with_text_tower(image_tower(), ending_tower()), {.batch_size = kPairs});
  Network padded(models::with_text_tower(image_tower(), longer), {.batch_size = kPairs});
  for (const Parameter& one : network.graph().parameters().entries())
    std::ranges::copy(network.parameter(one.name), padded.parameter(one.name).begin());
  const std::vector<float> texts = some_texts(), image = random_values(kPairs * kPixels, 1);
  std::vector<float> more(kPairs * (kLength + 2));
  for (std::size_t i = 0; i < texts.size(); ++i)
    more[i / kLength * (kLength + 2) + i % kLength] = texts[i];
  const std::span<float> output = network.forward({image, texts}).data;
  EXPECT_LT(relative_error(padded.forward({image, more}).data, output), 1e-6);
}

TEST(TwoTowers, MaskedTextsAreWhatTheyAreAtAnyLength) {
  models::TextTower longer = masked_tower();
  longer.length = kLength + 3;
  Network network(models::with_text_tower(image_tower(), masked_tower()), {.batch_size = kPairs});
  Network padded(models::with_text_tower(image_tower(), longer), {.batch_size = kPairs});
  for (const Parameter& one : network.graph().parameters().entries())
    std::ranges::copy(network.parameter(one.name), padded.parameter(one.name).begin());
  const std::vector<float> texts = some_texts(), image = random_values(kPairs * kPixels, 1);
  std::vector<float> more(kPairs * (kLength + 3));
  for (std::size_t i = 0; i < texts.size(); ++i)
    more[i / kLength * (kLength + 3) + i % kLength] = texts[i];
  const std::span<float> output = network.forward({image, texts}).data;
  EXPECT_LT(relative_error(padded.forward({image, more}).data, output), 1e-6);
}

TEST(TwoTowers, ComputeInBf16) {
  Network network(models::with_text_tower(image_tower(), kTower),
                  {.batch_size = kPairs, .precision = nn::Precision::kBFloat16});
  Network exact(models::with_text_tower(image_tower(), kTower), {.batch_size = kPairs});
  const std::vector<std::vector<float>> inputs = {random_values(kPairs * kPixels, 1),
                                                  some_tokens()};
  const nn::OutputView output = network.forward(inputs);
  EXPECT_LT(relative_error(output.data, exact.forward(inputs).data), 2e-2);
}

TEST(TwoTowers, RefuseModelsThatDoNotFit) {
  const auto refusal = [](const nn::Graph& image, const models::TextTower& tower) -> std::string {
    try {
      models::with_text_tower(image, tower);
    } catch (const Error& error) {
      return error.message();
    }
    return {};
  };
  models::TextTower other = kTower;
  other.features = 5;
  EXPECT_THAT(refusal(image_tower(), other), HasSubstr("(4), the text's has 5 features"));
  other = kTower;
  other.heads = 3;
  EXPECT_THAT(refusal(image_tower(), other), HasSubstr("width of 8 cannot be shared by 3 heads"));
  EXPECT_THAT(refusal(models::with_text_tower(image_tower(), kTower), kTower),
              HasSubstr("one input"));
  EXPECT_THROW(nn::TokenEmbedding({.vocabulary = 0, .width = 2}), Error);
  other = kTower;
  other.causal = true;
  EXPECT_THAT(refusal(image_tower(), other), HasSubstr("its class token sees no other"));
}

TEST(TwoTowers, RefuseMasksThatAreNone) {
  nn::GraphBuilder builder;
  const nn::Value x = builder.input("x", {12, 5, 1}), mask = builder.input("mask", {4});
  const auto refused = [&](std::int64_t masked, std::optional<nn::Value> of) {
    EXPECT_THROW(builder.attention("attention", x, {.heads = 2, .masked = masked}, of), Error);
  };
  refused(4, {});
  refused(0, mask);
  refused(5, mask);
  refused(3, x);
  refused(4, builder.relu("relu", mask));
  builder.attention("attention", x, {.heads = 2, .masked = 4}, mask);
}

TEST(TokenEmbedding, JoinsDigitsAndHasNothingWhereThereIsNoToken) {
  constexpr std::int64_t kVocabulary = 255 * 255 * 2;
  const int digits = nn::token_digits(kVocabulary);
  ASSERT_EQ(digits, 3);
  EXPECT_EQ(nn::token_digits(255 * 255), 2);
  EXPECT_EQ(nn::token_digits(255), 1);
  const std::vector<std::int64_t> numbers = {0, 254, 255, 49'407, kVocabulary - 1};
  std::vector<float> tokens(static_cast<std::size_t>(digits) * 6);  // the last one is none
  for (std::size_t i = 0; i < numbers.size(); ++i)
    for (int place = 0; place < digits; ++place)
      tokens[static_cast<std::size_t>(place) * 6 + i] =
          static_cast<float>(nn::token_digit(numbers[i], place));
  EXPECT_LE(*std::ranges::max_element(tokens), 255);
  std::vector<float> weight(static_cast<std::size_t>(kVocabulary)), output(6),
      slopes(weight.size());
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i) + 0.5F;
  const nn::TokenEmbedding layer({.vocabulary = kVocabulary, .width = 1, .digits = digits});
  const std::vector<nn::ConstValues> inputs = {tokens};
  layer.forward({.samples = 1, .inputs = inputs, .weight = weight, .bias = {}, .output = output});
  EXPECT_THAT(output, ::testing::ElementsAre(0.5F, 254.5F, 255.5F, 49'407.5F, 130'049.5F, 0));
  const std::vector<std::span<float>> none(1);
  layer.backward({.samples = 1,
                  .inputs = inputs,
                  .weight = weight,
                  .bias = {},
                  .output = output,
                  .output_gradient = output,
                  .input_gradients = none,
                  .weight_gradient = slopes,
                  .bias_gradient = {}});
  for (const std::int64_t number : numbers)
    EXPECT_EQ(slopes[static_cast<std::size_t>(number)], static_cast<float>(number) + 0.5F);
  EXPECT_EQ(std::ranges::count(slopes, 0.0F), kVocabulary - 5);
}

TEST(TokenEmbedding, TakesTheNearestTokenForWhatIsNone) {
  const nn::TokenEmbedding layer({.vocabulary = 3, .width = 1});
  const std::vector<float> tokens = {-5, 0, 2.4F, 1e9F, std::nanf(""), 1};
  const std::vector<float> weight = {10, 20, 30};
  std::vector<float> output(tokens.size());
  const std::vector<nn::ConstValues> inputs = {tokens};
  layer.forward({.samples = 2, .inputs = inputs, .weight = weight, .bias = {}, .output = output});
  EXPECT_THAT(output, ::testing::ElementsAre(10, 10, 30, 30, 10, 20));
}

/// Embeddings of `count` samples, as batches hand them over; the last two are of one sample.
class Embeddings {
 public:
  explicit Embeddings(std::size_t count)
      : values_(random_values(count * 2 * kWidth, 5)), numbers_(count), valid_(count, 1) {
    for (std::size_t i = 0; i < count; ++i)
      numbers_[i] = static_cast<std::int64_t>(i) * -1'234'567'890'123;
    numbers_[count - 1] = numbers_[count - 2];
    // A text is near its image, but not always the nearest.
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; k < kWidth; ++k)
        values_[(2 * i + 1) * kWidth + k] =
            values_[2 * i * kWidth + k] + 0.7F * values_[(2 * i + 1) * kWidth + k];
  }

  void mask(std::size_t slot) { valid_[slot] = 0; }

  /// Records of the samples [first, first + count).
  void add(const RetrievalObjective& objective, std::size_t first, std::size_t count,
           std::vector<float>& records) {
    pipeline::Batch batch;
    batch.size = static_cast<std::int64_t>(count);
    batch.valid.assign(valid_.begin() + static_cast<std::ptrdiff_t>(first),
                       valid_.begin() + static_cast<std::ptrdiff_t>(first + count));
    batch.fields = {{"sample",
                     {decode::DType::kInt64, {batch.size}},
                     std::as_writable_bytes(std::span(numbers_).subspan(first, count))}};
    const std::vector<nn::OutputView> outputs = {
        {{batch.size, 2 * kWidth},
         std::span(values_).subspan(first * 2 * kWidth, count * 2 * kWidth)}};
    objective.add_records(batch, outputs, records);
  }

  /// Found one by one: image to text, at 1 and 5; then the other way.
  std::vector<double> recalls() const {
    std::vector<double> all(4);
    double samples = 0;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      if (valid_[i] == 0) continue;
      samples += 1;
      for (const std::size_t tower : {0U, 1U}) {
        double best = -2;
        for (std::size_t j = 0; j < numbers_.size(); ++j)
          if (valid_[j] != 0 && numbers_[j] == numbers_[i])
            best = std::max(best, cosine(i, tower, j));
        int nearer = 0;
        for (std::size_t j = 0; j < numbers_.size(); ++j)
          if (valid_[j] != 0 && numbers_[j] != numbers_[i] && cosine(i, tower, j) >= best) ++nearer;
        all[2 * tower] += nearer < 1 ? 1 : 0;
        all[2 * tower + 1] += nearer < 5 ? 1 : 0;
      }
    }
    for (double& share : all) share /= samples;
    return all;
  }

 private:
  static constexpr std::size_t kWidth = 3;

  double cosine(std::size_t i, std::size_t tower, std::size_t j) const {
    const float* a = &values_[(2 * i + tower) * kWidth];
    const float* b = &values_[(2 * j + 1 - tower) * kWidth];
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (std::size_t k = 0; k < kWidth; ++k) {
      ab += static_cast<double>(a[k]) * static_cast<double>(b[k]);
      aa += static_cast<double>(a[k]) * static_cast<double>(a[k]);
      bb += static_cast<double>(b[k]) * static_cast<double>(b[k]);
    }
    return ab / std::sqrt(aa * bb);
  }

  std::vector<float> values_;
  std::vector<std::int64_t> numbers_;
  std::vector<std::uint8_t> valid_;
};

RetrievalObjective retrieval() {
  return RetrievalObjective(
      {.inputs = {"image", "text"}, .heads = {{.loss = losses::Clip{}, .target = "sample"}}});
}

TEST(RetrievalObjective, FindsEachInTheWholeSetOnAnyLayout) {
  const RetrievalObjective objective = retrieval();
  EXPECT_THAT(objective.measures(),
              ::testing::ElementsAre("loss", "top1", "top5", "image_to_text_r1", "image_to_text_r5",
                                     "text_to_image_r1", "text_to_image_r5"));
  constexpr std::size_t kCount = 150;
  Embeddings set(kCount);
  set.mask(70);
  const std::vector<double> sums(objective.num_sums());
  const auto measured = [&](const std::vector<std::pair<std::size_t, std::size_t>>& batches) {
    std::vector<float> records;
    for (const auto& [first, count] : batches) set.add(objective, first, count, records);
    return objective.finish({.sums = sums, .samples = kCount - 1, .records = records});
  };
  const NamedValues one = measured({{0, kCount}});
  EXPECT_EQ(measured({{100, 50}, {0, 64}, {64, 36}}), one);
  ASSERT_EQ(one.size(), 7U);
  const std::vector<double> wanted = set.recalls();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(one[3 + i].second, wanted[i], 1e-9) << one[3 + i].first;
    EXPECT_GT(wanted[i], 0.02);
    EXPECT_LT(wanted[i], 0.98);
  }
  EXPECT_EQ(objective.finish({.sums = sums, .samples = 3}).size(), 3U) << "in training";
}

}  // namespace two_towers_test
}  // namespace millrace::trainer
