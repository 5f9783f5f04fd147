// Steps as StableHLO programs, compiled by JAX's CPU compiler, beside the CPU's backend: the same
// losses, measures, weights, states, EMA and running statistics. Skipped without a Python that has
// jaxlib (MILLRACE_ORACLE_PYTHON). MILLRACE_PARITY_PRINT prints every distance.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "tests/support/effort.h"
#include "tests/trainer/nn_support.h"
#include "tests/trainer/program_run.h"
#include "tests/trainer/step_bench.h"
#include "tests/trainer/torch_oracle.h"
#include "trainer/composed_backend.h"
#include "trainer/loss/clip.h"
#include "trainer/loss/image_losses.h"
#include "trainer/loss/info_nce.h"
#include "trainer/loss/overlap_losses.h"
#include "trainer/loss/pixel_cross_entropy.h"
#include "trainer/loss/slot_loss.h"
#include "trainer/loss/value_losses.h"
#include "trainer/models/models.h"
#include "trainer/models/text_tower.h"
#include "trainer/nn/custom_layer.h"
#include "trainer/nn/logit_scale.h"
#include "trainer/nn/token_embedding.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/lamb.h"
#include "trainer/rules/lars.h"
#include "trainer/rules/lion.h"
#include "trainer/rules/muon.h"

namespace millrace::trainer {
namespace {

using hlo::Role;
using testing::ProgramData;

constexpr std::int64_t kNoBatch = -1;

struct StepTwins {
  nn::Graph graph;
  StepBenchOptions options = {};
  std::int64_t batch = 4;
  std::int64_t classes = 5;
  int steps = 3;
  float lr = 0.05F;
  float base_lr = 0.0F;
  std::int64_t first_step = 1;
  std::int64_t skipped = 0;  ///< StepNumbers'
  /// Of each step, then of each replica: valid slots; kNoBatch for none. Empty: all valid.
  std::vector<std::vector<std::int64_t>> valid = {};
  /// The number of the first batch of a step; -1: the step's own. For one batch in all steps: 0.
  int number = -1;
  std::string spoiled = {};  ///< a parameter that is NaN from the start
};

/// Of one of the two: each step's outcome, and the values at the end, by name.
struct StepRecord {
  std::vector<StepOutcome> outcomes;
  std::map<std::string, std::vector<float>> values;
};

class Twins {
 public:
  explicit Twins(StepTwins setup)
      : setup_(complete(std::move(setup))),
        backend_(make_cpu_backend()),
        bench_(*backend_, setup_.options),
        program_(make_step_program(program_setup(), {.optimizer = setup_.options.optimizer,
                                                     .clip = setup_.options.clip,
                                                     .ema_decay = setup_.options.ema_decay})) {
    for (int s = 0; s < setup_.steps; ++s) batches_.push_back(make_batches(s));
    if (!setup_.spoiled.empty()) bench_.spoil(setup_.spoiled);
  }

  const hlo::Program& program() const { return program_; }

  StepRecord on_cpu() {
    StepRecord record;
    for (int s = 0; s < setup_.steps; ++s) {
      StepBench::Round round;
      for (const auto& batch : batches_[at(s)]) round.push_back(batch ? &*batch : nullptr);
      bench_.step({round}, StepNumbers{.lr = setup_.lr,
                                       .step = setup_.first_step + s,
                                       .base_lr = setup_.base_lr,
                                       .skipped = setup_.skipped});
      record.outcomes.push_back(bench_.outcomes()[0]);
    }
    record.values = named(bench_.values());
    return record;
  }

  StepRecord compiled() {
    std::vector<std::vector<ProgramData>> state(world());
    const auto start = named(bench_.values());
    for (std::size_t r = 0; r < world(); ++r)
      for (const hlo::ProgramValue& value : program_.arguments)
        if (value.donated_to)
          state[r].push_back(testing::program_data<float>(start.at(key_of(value, r))));
    std::vector<std::vector<std::vector<ProgramData>>> steps;
    for (int s = 0; s < setup_.steps; ++s) {
      auto& step = steps.emplace_back();
      for (std::size_t r = 0; r < world(); ++r) {
        const auto& batch = batches_[at(s)][r];
        step.push_back(
            testing::program_arguments(program_, batch ? &*batch : nullptr, numbers(s, r)));
      }
    }
    return record_of(testing::run_program(program_, state, steps));
  }

 private:
  using Batches = std::vector<std::optional<pipeline::Batch>>;

  static std::size_t at(int step) { return static_cast<std::size_t>(step); }
  std::size_t world() const { return static_cast<std::size_t>(setup_.options.world); }

  static StepTwins complete(StepTwins setup) {
    setup.options.graph = setup.graph;
    return setup;
  }

  hlo::ProgramSetup program_setup() const {
    return {.model = bench_.model(),
            .objective = bench_.objective(),
            .batch_size = setup_.batch,
            .precision = setup_.options.precision,
            .replicas = setup_.options.world};
  }

  Batches make_batches(int step) const {
    Batches batches;
    for (std::size_t r = 0; r < world(); ++r) {
      const std::int64_t valid = setup_.valid.empty() ? setup_.batch : setup_.valid.at(at(step))[r];
      const int base = setup_.number >= 0 ? setup_.number : step;
      const int number = base * setup_.options.world + static_cast<int>(r);
      batches.emplace_back();
      if (valid != kNoBatch)
        batches.back() = testing::program_batch(program_, setup_.classes, number, valid);
    }
    return batches;
  }

  testing::ProgramNumbers numbers(int step, std::size_t rank) const {
    float valid = 0;
    for (const auto& batch : batches_[at(step)])
      valid += batch ? static_cast<float>(batch->num_valid) : 0.0F;
    const auto number = static_cast<std::int64_t>(setup_.first_step + step);
    // As StepBench's.
    const std::vector<std::uint64_t> key = {5, 0, 8 * rank, 1};
    return {{"lr", testing::program_data<float>({&setup_.lr, 1})},
            {"base_lr", testing::program_data<float>({&setup_.base_lr, 1})},
            {"step", testing::program_data<std::int64_t>({&number, 1})},
            {"skipped", testing::program_data<std::int64_t>({&setup_.skipped, 1})},
            {"num_valid", testing::program_data<float>({&valid, 1})},
            {"random_key", testing::program_data<std::uint64_t>(key)}};
  }

  static std::string key_of(const hlo::ProgramValue& value, std::size_t rank) {
    std::string key = std::string(hlo::role_name(value.role)) + " " + value.state + value.name;
    if (value.role == Role::kBuffer) key += " of " + std::to_string(rank);
    return key;
  }

  /// StepBench's flat buffers by the program's names.
  std::map<std::string, std::vector<float>> named(
      const std::vector<std::vector<float>>& flat) const {
    std::map<std::string, std::vector<float>> values;
    const auto cut = [&](const ParameterTable& table, const std::vector<float>& from, Role role,
                         const std::string& state, std::size_t rank) {
      for (const Parameter& entry : table.entries()) {
        const auto begin = from.begin() + static_cast<std::ptrdiff_t>(entry.offset);
        values[key_of({.name = entry.name, .role = role, .state = state}, rank)] = {
            begin, begin + static_cast<std::ptrdiff_t>(entry.size)};
      }
    };
    const Model& model = bench_.model();
    const auto states = setup_.options.optimizer.rule.make()->state_names();
    std::size_t next = 0;
    cut(model.parameters(), flat[next++], Role::kWeight, "", 0);
    cut(model.parameters(), flat[next++], Role::kEma, "", 0);
    for (const std::string& state : states)
      cut(model.parameters(), flat[next++], Role::kState, state, 0);
    for (std::size_t r = 0; r < world(); ++r)
      cut(model.buffers(), flat[next++], Role::kBuffer, "", r);
    return values;
  }

  StepRecord record_of(const testing::ProgramResults& results) const {
    StepRecord record;
    for (const auto& step : results.steps) {
      // sums, num_samples, is_finite: the same on every replica, and bit by bit.
      for (const auto& replica : step)
        for (std::size_t i = 1; i < replica.size(); ++i) EXPECT_EQ(step[0][i], replica[i]);
      record.outcomes.push_back({.sums = {step[0][0].begin(), step[0][0].end()},
                                 .samples = static_cast<double>(step[0][1][0]),
                                 .is_finite = step[0][2][0] != 0});
    }
    for (std::size_t r = 0; r < results.state.size(); ++r) {
      std::size_t next = 0;
      for (const hlo::ProgramValue& value : program_.arguments) {
        if (!value.donated_to) continue;
        const std::vector<float>& found = results.state[r][next++];
        const auto [known, is_new] = record.values.emplace(key_of(value, r), found);
        if (!is_new) expect_same_bits(known->second, found, value.name);
      }
    }
    return record;
  }

  /// Of NaNs, too.
  static void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b,
                               const std::string& name) {
    EXPECT_EQ(testing::program_data<float>(a), testing::program_data<float>(b))
        << name << " differs between replicas";
  }

  StepTwins setup_;
  std::unique_ptr<Backend> backend_;
  StepBench bench_;
  hlo::Program program_;
  std::vector<Batches> batches_;
};

/// By roles, the Euclidean distance of all values together.
void expect_close_values(const StepRecord& expected, const StepRecord& found, double limit,
                         double state_limit) {
  std::map<std::string, std::pair<std::vector<float>, std::vector<float>>> kinds;
  for (const auto& [name, values] : expected.values) {
    ASSERT_TRUE(found.values.contains(name)) << name;
    const auto& others = found.values.at(name);
    ASSERT_EQ(values.size(), others.size()) << name;
    std::string kind = name.substr(0, name.find(' '));
    if (name.ends_with("num_batches_tracked of 0")) kind = "batches";
    if (std::getenv("MILLRACE_PARITY_EACH") != nullptr)
      testing::print_distance(name, relative_error(others, values));
    auto& [ours, theirs] = kinds[kind];
    ours.insert(ours.end(), values.begin(), values.end());
    theirs.insert(theirs.end(), others.begin(), others.end());
  }
  for (const auto& [kind, pair] : kinds) {
    const double error = relative_error(pair.second, pair.first);
    testing::print_distance(kind, error);
    EXPECT_LT(error, kind == "state" ? std::max(limit, state_limit) : limit) << kind;
  }
}

/// `state_limit`: of the rule's state, the sum of gradients. A deep net has an activation at a
/// kink, and rounding decides on which side.
void expect_close(const StepRecord& expected, const StepRecord& found, double limit,
                  double state_limit = 0) {
  ASSERT_EQ(expected.outcomes.size(), found.outcomes.size());
  for (std::size_t s = 0; s < expected.outcomes.size(); ++s) {
    const StepOutcome& ours = expected.outcomes[s];
    const StepOutcome& theirs = found.outcomes[s];
    EXPECT_EQ(ours.samples, theirs.samples) << "step " << s;
    EXPECT_EQ(ours.is_finite, theirs.is_finite) << "step " << s;
    ASSERT_EQ(ours.sums.size(), theirs.sums.size());
    testing::print_distance("loss", std::abs(theirs.sums[0] / ours.sums[0] - 1.0));
    for (std::size_t i = 0; i < ours.sums.size(); ++i)
      EXPECT_NEAR(ours.sums[i], theirs.sums[i], limit * (std::abs(ours.sums[i]) + 1e-2))
          << "sum " << i << " of step " << s;
  }
  expect_close_values(expected, found, limit, state_limit);
}

void compare_twins(StepTwins setup, double limit = 1e-4, double state_limit = 0) {
  if (!testing::have_jax()) GTEST_SKIP() << "no Python with jaxlib (MILLRACE_ORACLE_PYTHON)";
  Twins twins(std::move(setup));
  const StepRecord compiled = twins.compiled();
  expect_close(twins.on_cpu(), compiled, limit, state_limit);
}

nn::Graph lenet() {
  return build_model("lenet", {.num_classes = 10, .in_channels = 1, .image = 28});
}

/// Compilers take up to minutes for a deep model.
bool runs_models() { return testing::is_long(); }

/// One batch, so that a deep net's steps do not drift apart by rounding alone.
StepTwins deep(const std::string& model, const ModelOptions& options, float lr) {
  return {.graph = build_model(model, options), .classes = 10, .lr = lr, .number = 0};
}

TEST(StepProgram, LeNetTrainsAsOnTheCpu) {
  compare_twins({.graph = lenet(), .batch = 8, .classes = 10, .steps = 20, .lr = 0.01F});
}

TEST(ModelProgram, ResNet18TrainsAsOnTheCpu) {
  if (!runs_models()) GTEST_SKIP() << "long: the test hlo.models runs it";
  StepTwins setup = deep("resnet18(stem=3x3)", {.num_classes = 10, .image = 16}, 0.0002F);
  setup.batch = 8;
  compare_twins(setup, 1e-4, 0.05);
}

// With dropout, by the same masks.
TEST(ModelProgram, AlexNetTrainsAsOnTheCpu) {
  if (!runs_models()) GTEST_SKIP() << "long: the test hlo.models runs it";
  StepTwins setup = deep("alexnet", {.num_classes = 10, .image = 64}, 0.01F);
  setup.batch = 2;
  setup.options.optimizer.rule = Sgd{.momentum = 0.0F};
  compare_twins(setup);
}

LossObjectiveOptions mask_and_depth() {
  return {.heads = {
              {.name = "mask", .loss = losses::Bce{}, .target = "mask", .metrics = {Metric::kIou}},
              {.output = 1,
               .name = "depth",
               .loss = losses::BerHu{},
               .target = "depth",
               .weight = 0.5,
               .metrics = {Metric::kRmse}}}};
}

TEST(ModelProgram, UNetTrainsAsOnTheCpu) {
  if (!runs_models()) GTEST_SKIP() << "long: the test hlo.models runs it";
  StepTwins setup = deep("unet", {.image = 32}, 0.000004F);
  setup.batch = 6;
  setup.options.objective = mask_and_depth();
  setup.steps = 2;
  compare_twins(setup, 1e-4, 0.05);
}

StepTwins small(StepBenchOptions options = {}) {
  return {.graph = conformance_graph(), .options = std::move(options)};
}

/// Weights, biases and a layer called fc: soon compiled.
StepTwins tiny(StepBenchOptions options) {
  nn::GraphBuilder builder;
  nn::Value x = builder.input("image", {3, 6, 6});
  x = builder.relu("relu", builder.conv2d("conv", x, {.channels = 4, .kernel = 3}));
  builder.output("logits", builder.linear("fc", builder.flatten("flat", x), {.features = 5}));
  return {.graph = builder.build(), .options = std::move(options)};
}

TEST(StepProgram, HasEveryRule) {
  const std::vector<ParameterGroup> groups = {{.parameters = "norms-biases", .weight_decay = 0.0F},
                                              {.parameters = "fc.", .rate = 3}};
  const std::vector<Rule> rules = {Sgd{.momentum = 0.0F, .weight_decay = 0.1F, .groups = groups},
                                   Sgd{.momentum = 0.9F, .dampening = 0.3F, .weight_decay = 0.1F},
                                   Sgd{.momentum = 0.9F, .nesterov = true, .groups = groups},
                                   Adam{.eps = 1e-3F, .weight_decay = 0.1F},
                                   AdamW{.eps = 1e-3F, .weight_decay = 0.1F, .groups = groups},
                                   Lion{.weight_decay = 0.1F, .groups = groups},
                                   Lars{.trust = 0.1F, .weight_decay = 0.1F},
                                   Lamb{.eps = 1e-3F, .weight_decay = 0.1F, .groups = groups}};
  for (const Rule& rule : rules) {
    SCOPED_TRACE(rule.type().name().word);
    compare_twins(tiny({.optimizer = {.rule = rule}}));
    if (::testing::Test::IsSkipped()) return;
  }
}

/// What the options change is more than compare_twins() lets pass: a program without it would fail.
void expect_effect(const StepTwins& setup, const StepTwins& without) {
  const StepRecord ours = Twins(setup).on_cpu();
  const StepRecord other = Twins(without).on_cpu();
  double most = 0;
  for (const auto& [name, values] : ours.values)
    if (other.values.contains(name))
      most = std::max(most, relative_error(other.values.at(name), values));
  EXPECT_GT(most, 1e-3);
}

/// Groups count the run's steps.
TEST(StepProgram, ARuleCountsTheStepsThatChangedSomething) {
  StepTwins plain = tiny({.optimizer = {.rule = Adam()}});
  plain.first_step = 4;
  StepTwins skipping = plain;
  skipping.skipped = 3;
  expect_effect(skipping, plain);
  compare_twins(skipping);
  if (::testing::Test::IsSkipped()) return;
  skipping.options.optimizer.rule =
      Sgd{.momentum = 0.9F, .dampening = 0.5F, .groups = {{.parameters = "fc.", .after = 4}}};
  compare_twins(skipping);
}

TEST(StepProgram, GroupsTrainBetweenTheirSteps) {
  const auto with = [](const ParameterGroup& group) {
    return tiny({.optimizer = {.rule = Sgd{.momentum = 0.9F, .groups = {group}}}});
  };
  for (const ParameterGroup& group : {ParameterGroup{.parameters = "fc.", .rate = 2, .until = 1},
                                      ParameterGroup{.parameters = "conv.", .after = 1}}) {
    expect_effect(with(group), with({.parameters = group.parameters, .rate = group.rate}));
    compare_twins(with(group));
    if (::testing::Test::IsSkipped()) return;
  }
  compare_twins(tiny({.optimizer = {.rule = Lars{.groups = {{.parameters = "fc.", .until = 1}}}}}));
  StepTwins falling = with({.parameters = "fc.", .rate = 2, .after = 1, .until = 3, .falls = true});
  falling.base_lr = 0.1F;
  expect_effect(falling, with({.parameters = "fc.", .rate = 2, .after = 1, .until = 3}));
  compare_twins(falling);
}

TEST(StepProgram, ClipsByValueThenByNorm) {
  for (const ClipOptions& clip :
       {ClipOptions{.norm = 0.05}, ClipOptions{.norm = 0.01, .value = 0.002F}}) {
    expect_effect(tiny({.clip = clip}), tiny({}));
    compare_twins(tiny({.clip = clip}));
    if (::testing::Test::IsSkipped()) return;
  }
}

TEST(StepProgram, RoundsWeightsAndStatesInTrueBfloat16) {
  compare_twins(small({.optimizer = {.rule = Sgd{.momentum = 0.9F}, .round_to_bf16 = true}}), 1e-3);
}

TEST(StepProgram, MaskedSlotsCountForNothing) {
  StepTwins setup = small();
  setup.valid = {{3}, {1}, {4}};
  expect_effect(setup, small());
  compare_twins(setup);
}

TEST(StepProgram, AStepWithoutASampleChangesNothing) {
  StepTwins setup = small();
  setup.valid = {{4}, {kNoBatch}, {4}};
  setup.steps = 3;
  compare_twins(setup);
}

TEST(StepProgram, ReplicasShareASumAndTheMeanOfRunningStatistics) {
  StepTwins setup = small({.world = 2, .clip = {.norm = 0.1}});
  setup.valid = {{4, 4}, {3, 1}, {2, kNoBatch}};
  compare_twins(setup);
}

// Without batch norm, whose statistics are a replica's own.
TEST(StepProgram, TwoReplicasAreOneWithTheWholeBatch) {
  if (!testing::have_jax()) GTEST_SKIP() << "no Python with jaxlib (MILLRACE_ORACLE_PYTHON)";
  StepTwins setup{.graph = lenet(), .batch = 4, .classes = 10, .number = 0};
  setup.valid = {{2}, {2}, {2}};
  Twins one(setup);
  setup.options.world = 2;
  setup.valid = {{2, 0}, {2, 0}, {2, 0}};
  Twins two(setup);
  const StepRecord expected = one.compiled();
  StepRecord found = two.compiled();
  expect_close(expected, found, 1e-6);
}

TEST(StepProgram, AStepThatIsNotFiniteChangesNothing) {
  if (!testing::have_jax()) GTEST_SKIP() << "no Python with jaxlib (MILLRACE_ORACLE_PYTHON)";
  for (const int world : {1, 2}) {
    StepTwins setup = small({.world = world});
    setup.steps = 1;
    setup.spoiled = "conv1.bias";
    Twins twins(setup);
    const StepRecord found = twins.compiled();
    EXPECT_FALSE(found.outcomes[0].is_finite);
    EXPECT_TRUE(std::isnan(found.outcomes[0].sums[0]));
    const StepRecord before = twins.on_cpu();  // which leaves them as well
    EXPECT_FALSE(before.outcomes[0].is_finite);
    for (const auto& [name, values] : before.values)
      EXPECT_EQ(testing::program_data<float>(values),
                testing::program_data<float>(found.values.at(name)))
          << name;
  }
}

/// As ResNets' with stochastic depth.
TEST(StepProgram, LeavesBlocksOutAtRandom) {
  nn::GraphBuilder builder;
  nn::Value x = builder.input("image", {4, 6, 6});
  nn::Value y = builder.conv2d("conv", x, {.channels = 4, .kernel = 3, .padding = 1});
  y = builder.stochastic_depth("depth", builder.batch_norm("bn", y), {.probability = 0.5F});
  y = builder.relu("relu", builder.add("add", y, x));
  builder.output("logits", builder.linear("fc", builder.flatten("flat", y), {.features = 5}));
  compare_twins({.graph = builder.build()});
}

TEST(StepProgram, ComputesInBfloat16) {
  StepTwins setup = small({.precision = nn::Precision::kBFloat16});
  setup.steps = 5;
  setup.lr = 0.01F;
  EXPECT_NE(std::string::npos,
            Twins(setup).program().text.find("(tensor<4x8x8x16xbf16>, tensor<16x16x3x3xbf16>) -> "
                                             "tensor<4x8x8x16xf32>"));
  compare_twins(setup, 2e-2, 0.1);
}

TEST(StepProgram, SmoothsLabels) {
  compare_twins(small({.objective = {.heads = {{.loss = losses::CrossEntropy{0.2F}}}}}));
}

/// Every layer that no model has.
nn::Graph other_layers() {
  nn::GraphBuilder builder;
  nn::Value x = builder.input("image", {4, 8, 8});
  nn::Value y = builder.conv2d(
      "grouped", x, {.channels = 6, .kernel = {3, 2}, .stride = {2, 1}, .padding = 1, .groups = 2});
  y = builder.leaky_relu("leaky", y, 0.1F);
  y = builder.conv_transpose2d(
      "up", y,
      {.channels = 4, .kernel = 3, .stride = {2, 1}, .padding = 1, .output_padding = {1, 0}});
  y = builder.avg_pool2d("mean", y, {.kernel = 3, .stride = 2, .padding = 1});
  nn::Value z =
      builder.conv2d("dilated", x, {.channels = 4, .kernel = 3, .padding = 2, .dilation = 2});
  z = builder.hard_swish("hard_swish", builder.silu("silu", builder.gelu("gelu", z)));
  z = builder.channel_scale("scales", builder.layer_norm("layer_norm", z), {.start = 0.5F});
  z = builder.conv2d("pixelwise", z, {.channels = 4, .kernel = 1, .flat = true});
  z = builder.stochastic_depth("depth", z, {.probability = 0.5F});
  nn::Value tokens =
      builder.conv2d("joined_names", builder.tokens("class_token", z),
                     {.channels = 24, .kernel = 1, .flat = true, .joins_names = true});
  tokens = builder.attention("attention", tokens, {.heads = 2});
  tokens = builder.add("two_tokens", builder.take_token("first_token", tokens),
                       builder.take_token("another_token", tokens, {.index = 7}));
  const nn::Value gate = builder.hard_sigmoid("gate", builder.adaptive_avg_pool2d("squeeze", z));
  z = builder.scale("scaled", z, gate);
  z = builder.adaptive_avg_pool2d("adaptive", z, {.size = {3, 5}});
  z = builder.upsample("nearest", z, {.factor = 2});
  z = builder.softmax("softmax", builder.sigmoid("sigmoid", z));
  y = builder.flatten("flat1", y);
  z = builder.flatten("flat2", builder.reshape("shaped", z, {60, 2, 2}));
  x = builder.linear("narrow", builder.concat("joined", {y, z, tokens}), {.features = 48});
  x = builder.dropout("dropout", x, {.probability = 0.3F});
  x = builder.max_pool2d("pool", builder.reshape("image2", x, {3, 4, 4}),
                         {.kernel = 3, .stride = 2, .padding = 1});
  x = builder.upsample("bilinear", x, {.factor = 3, .mode = nn::UpsampleMode::kBilinear});
  builder.output("logits", builder.linear("fc", builder.flatten("flat3", x), {.features = 5}));
  return builder.build();
}

TEST(StepProgram, HasEveryLayer) {
  compare_twins({.graph = other_layers(), .options = {}});
  compare_twins(
      {.graph = other_layers(), .options = {.precision = nn::Precision::kBFloat16}, .lr = 0.01F},
      2e-2);
}

TEST(StepProgram, MasksAttention) {
  nn::GraphBuilder builder;
  const nn::Value mask = builder.input("mask", {9});
  nn::Value x = builder.tokens("class_token", builder.input("image", {4, 4, 2}));
  const nn::Conv2d entry = {.channels = 24, .kernel = 1, .flat = true};
  for (const std::string name : {"first", "second"}) {
    x = builder.conv2d(name + "_entry", x, entry);
    x = builder.attention(name, x, {.heads = 2, .causal = name == "second", .masked = 7}, mask);
  }
  const nn::Value both = builder.add("both", builder.take_token("class", x),
                                     builder.take_token("last", x, {.index = 8}));
  builder.output("logits", builder.linear("fc", both, {.features = 5}));
  const nn::Graph graph = builder.build();
  compare_twins({.graph = graph, .options = {.objective = {.inputs = {"image", "mask"}}}});
  compare_twins({.graph = graph,
                 .options = {.objective = {.inputs = {"image", "mask"}},
                             .precision = nn::Precision::kBFloat16},
                 .lr = 0.01F},
                2e-2);
}

TEST(StepProgram, TiesWeights) {
  nn::GraphBuilder builder;
  nn::Value x = builder.input("image", {3, 4, 4});
  nn::Value y = builder.conv2d("a", x, {.channels = 3, .kernel = 3, .padding = 1});
  y = builder.conv2d("b", y,
                     {.channels = 3, .kernel = 3, .padding = 1, .shared = builder.weights_of(y)});
  builder.output("logits", builder.linear("fc", builder.flatten("flat", y), {.features = 5}));
  compare_twins({.graph = builder.build(), .options = {}});
}

/// One output of 3 channels, without a class per sample.
nn::Graph dense_graph() {
  nn::GraphBuilder builder;
  nn::Value x = builder.input("image", {3, 6, 5});
  x = builder.relu("relu", builder.conv2d("conv", x, {.channels = 8, .kernel = 3, .padding = 1}));
  builder.output("mask", builder.conv2d("out", x, {.channels = 3, .kernel = 1}));
  return builder.build();
}

StepTwins dense(Head head) {
  head.target = "mask";
  StepTwins setup{.graph = dense_graph(), .options = {.objective = {.heads = {std::move(head)}}}};
  setup.valid = {{4}, {2}, {3}};
  return setup;
}

TEST(StepProgram, HasEveryLossOfValues) {
  const std::vector<LossChoice> choices = {losses::Bce{},
                                           losses::Dice{},
                                           losses::BceDice{.bce = 0.5F, .dice = 2.0F},
                                           losses::Tversky{},
                                           losses::L1{},
                                           losses::Mse{},
                                           losses::Rmse{},
                                           losses::BerHu{},
                                           losses::Gradient{},
                                           losses::Ssim{.window = 3}};
  for (const LossChoice& loss : choices) {
    SCOPED_TRACE(loss.type().name().word);
    compare_twins(dense({.loss = loss, .metrics = {Metric::kRmse, Metric::kIou}}));
    if (::testing::Test::IsSkipped()) return;
  }
}

/// MixUp's and CutMix's targets.
TEST(StepProgram, MixesTwoLabels) {
  const std::vector<LossChoice> choices = {
      losses::CrossEntropy{}, losses::CrossEntropy{.label_smoothing = 0.1F},
      losses::ClassBce{.label_smoothing = 0.1F},
      losses::ClassBce{.threshold = 0.2F, .sum_classes = true}};
  for (const LossChoice& loss : choices) {
    compare_twins(tiny({.objective = {.heads = {{.loss = loss, .mixes = true}}}}));
    if (::testing::Test::IsSkipped()) return;
  }
}

TEST(StepProgram, HasTheBinaryCrossEntropyOfClasses) {
  compare_twins(tiny({.objective = {.heads = {{.loss = losses::ClassBce{0.2F}}}}}));
}

TEST(StepProgram, HasTheCrossEntropyOfPixels) {
  const auto compare = [](const losses::PixelCrossEntropy& loss) {
    StepTwins setup =
        dense({.loss = loss, .classes = 3, .metrics = {Metric::kMiou, Metric::kPixelAccuracy}});
    setup.classes = 3;
    compare_twins(setup);
  };
  compare({});
  compare({.label_smoothing = 0.1F,
           .ignore_index = 1,
           .class_weights = {0.5F, 1.0F, 3.0F},
           .dice = 0.7F});
}

/// Two micro-batches, or replicas, of embeddings with a masked slot, and samples of several slots.
void compare_contrast(const LossChoice& loss) {
  StepTwins setup = tiny({.world = 2, .objective = {.heads = {{.loss = loss}}}});
  setup.classes = 3;
  setup.batch = 6;
  setup.valid = {{6, 6}, {6, 4}, {kNoBatch, 6}};
  compare_twins(setup);
  setup.options.world = 1;
  setup.valid = {{6}, {5}, {3}};
  compare_twins(setup);
}

TEST(StepProgram, ComparesTheSamplesOfAllReplicas) {
  compare_contrast(losses::InfoNce{.temperature = 0.3F});
  compare_contrast(losses::InfoNce{.learned = true});
}

TEST(StepProgram, ComparesTwoTowersOfAllReplicas) {
  nn::GraphBuilder builder;
  nn::Value x = builder.flatten("flat", builder.input("image", {3, 4, 4}));
  builder.output("logits", builder.linear("fc", x, {.features = 6}));
  const nn::Graph graph = builder.build();
  for (const losses::Clip& loss :
       {losses::Clip{.temperature = 0.3F}, losses::Clip{.learned = true}}) {
    StepTwins setup{.graph = graph, .options = {}};
    setup.options.world = 2;
    setup.options.objective = {.heads = {{.loss = loss}}};
    setup.batch = 6;
    setup.valid = {{6, 6}, {6, 4}, {kNoBatch, 6}};
    compare_twins(setup);
  }
}

/// A text tower alone: tokens are images' values, of which program_batch() makes whole numbers.
void compare_texts(const models::TextTower& text, nn::Precision precision, double limit) {
  nn::GraphBuilder builder;
  builder.output("image", builder.linear("fc", builder.input("image", {3}), {.features = 4}));
  StepTwins setup{.graph = nn::with_logit_scale(models::with_text_tower(builder.build(), text),
                                                {.temperature = 0.1F, .parts = 2}),
                  .options = {.world = 2, .precision = precision}};
  setup.options.objective = {.inputs = {"image", "text"},
                             .heads = {{.loss = losses::Clip{.learned = true}}}};
  setup.lr = 0.5F;
  if (precision == nn::Precision::kBFloat16) setup.steps = 1;  // then rounding decides what is near
  setup.batch = 6;
  setup.classes = 50;
  compare_twins(setup, limit);
}

TEST(StepProgram, TrainsBothOfClipsTowers) {
  models::TextTower text = {
      .length = 5, .vocabulary = 9, .width = 8, .depth = 1, .heads = 2, .features = 4};
  compare_texts(text, nn::Precision::kFloat32, 1e-4);
  text.masked = text.causal = true;
  text.pool = models::TextPool::kEnd;
  compare_texts(text, nn::Precision::kFloat32, 1e-4);
  text.vocabulary = 600;
  text.digits = nn::token_digits(text.vocabulary);
  compare_texts(text, nn::Precision::kFloat32, 1e-4);
  compare_texts(text, nn::Precision::kBFloat16, 0.05);
}

TEST(StepProgram, KeepsParametersWithinTheirBounds) {
  nn::GraphBuilder builder;
  nn::Value x = builder.flatten("flat", builder.input("image", {3, 4, 4}));
  builder.output("logits", builder.linear("fc", x, {.features = 6}));
  StepTwins setup{.graph = nn::with_logit_scale(builder.build(), {.temperature = 0.011F}),
                  .options = {}};
  setup.options.objective = {.heads = {{.loss = losses::InfoNce{.learned = true}}}};
  setup.classes = 2;
  setup.batch = 6;
  setup.options.optimizer.rule =
      Sgd{.momentum = 0.0F, .groups = {{.parameters = "logit_scale.", .rate = 1000}}};
  compare_twins(setup);
}

TEST(StepProgram, RefusesLossesOfAllDevicesInSeveralPrograms) {
  const GraphModel model("own", tiny({}).graph);
  const LossObjective objective({.heads = {{.loss = losses::InfoNce{}}}});
  EXPECT_THROW(hlo::make_gradient_program({.model = model, .objective = objective}), Error);
}

/// A loss, a rule and a layer of a program's own, without StableHLO.
class OwnLayer final : public nn::CustomLayer {
 public:
  std::string_view kind() const override { return "own_layer"; }
  nn::Shape shape(std::span<const nn::Shape> inputs) const override { return inputs[0]; }
  void forward(const nn::CustomForward& /*pass*/) const override {}
  void backward(const nn::CustomBackward& /*pass*/) const override {}
};

struct OwnLoss {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<Loss> make() const {
    return make_value_loss("own", [](float x, float y) { return LossPoint{x - y, 1.0F}; });
  }
};
const ComponentName OwnLoss::kName = {"own-loss", "OwnLoss", "A loss without StableHLO"};

class OwnUpdate final : public UpdateRule {
 public:
  OwnUpdate() : UpdateRule(RuleSettings{}) {}
  std::vector<std::string> state_names() const override { return {}; }
  void apply(const RuleStep& /*step*/, const RuleBuffers& /*buffers*/) const override {}
};
struct OwnUpdateRule {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<UpdateRule> make() const { return std::make_unique<OwnUpdate>(); }
};
const ComponentName OwnUpdateRule::kName = {"own-rule", "OwnUpdateRule", "A rule without one"};

std::string refusal(const nn::Graph& graph, const LossChoice& loss, const Rule& rule) {
  const GraphModel model("own", graph);
  const LossObjective objective({.heads = {{.loss = loss, .target = "mask"}}});
  try {
    hlo::make_step_program({.model = model, .objective = objective}, {.optimizer = {.rule = rule}});
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kUnsupported, error.code());
    return error.message();
  }
  return "made";
}

TEST(StepProgram, RefusesWhatHasNoStableHloByName) {
  nn::GraphBuilder builder;
  const nn::Value x = builder.input("image", {3, 4, 4});
  builder.output("mask", builder.custom("mine", std::make_shared<OwnLayer>(), {x}));
  EXPECT_EQ("layer mine: own_layer has no StableHLO",
            refusal(builder.build(), losses::L1{}, Sgd{}));
  EXPECT_EQ("loss own-loss has no StableHLO", refusal(dense_graph(), OwnLoss{}, Sgd{}));
  EXPECT_EQ("update rule own-rule has no StableHLO",
            refusal(dense_graph(), losses::L1{}, OwnUpdateRule{}));
  EXPECT_EQ("update rule muon has no StableHLO", refusal(dense_graph(), losses::L1{}, Muon{}));
  EXPECT_EQ("made", refusal(dense_graph(), losses::L1{}, Sgd{}));
}

// A parameter is "fc.weight", a layer may be called anything.
TEST(StepProgram, NamesAreThoseOfLayersAsFarAsMlirAllows) {
  nn::GraphBuilder builder;
  const nn::Value x = builder.flatten("0", builder.input("image", {1, 2, 2}));
  builder.output("logits", builder.linear("a \"b\"/ç", x, {.features = 2}));
  StepTwins setup{.graph = builder.build(), .options = {}, .classes = 2, .steps = 1};
  EXPECT_NE(std::string::npos,
            Twins(setup).program().text.find("loc(\"a \\22b\\22/\\C3\\A7/backward\")"));
  compare_twins(setup);
}

/// `program` on one replica and one batch: its results.
std::vector<std::vector<float>> results_of(const hlo::Program& program, Network& network,
                                           const pipeline::Batch& batch) {
  testing::ProgramNumbers numbers;
  const auto add = [&](const ParameterTable& table, std::span<const float> values) {
    for (const Parameter& entry : table.entries())
      numbers[entry.name] = testing::program_data(values.subspan(entry.offset, entry.size));
  };
  add(network.graph().parameters(), network.parameters());
  add(network.graph().buffers(), network.buffers());
  return testing::run_program(program, {{}},
                              {{testing::program_arguments(program, &batch, numbers)}})
      .steps.at(0)
      .at(0);
}

TEST(ForwardProgram, EvaluatesAndPredictsAsTheCpu) {
  if (!testing::have_jax()) GTEST_SKIP() << "no Python with jaxlib (MILLRACE_ORACLE_PYTHON)";
  nn::GraphBuilder builder;
  nn::Value x = builder.input("image", {3, 6, 5});
  x = builder.batch_norm("bn", builder.conv2d("conv", x, {.channels = 8, .kernel = 3}));
  x = builder.dropout("dropout", x);
  builder.output("mask", builder.conv2d("out", x, {.channels = 3, .kernel = 1}));
  Network network(builder.build(), {.batch_size = 4});
  for (float& value : network.buffers()) value = 0.5F;
  const LossObjective objective(
      {.heads = {{.loss = losses::Bce{},
                  .target = "mask",
                  .metrics = {Metric::kAuroc, Metric::kIou, Metric::kRmse}}}});
  const GraphModel model("small", network.graph());
  const hlo::ProgramSetup setup{.model = model,
                                .objective = objective,
                                .batch_size = 4,
                                .precision = nn::Precision::kFloat32};
  const hlo::Program evaluation = make_evaluation_program(setup);
  const auto batch = testing::program_batch(evaluation, 0, 1, 3);
  const auto image = batch.field("image").as<float>();
  const nn::OutputView output =
      network.forward({{image.begin(), image.end()}}, nn::Mode::kEvaluate);
  std::vector<double> sums(objective.num_sums());
  objective.score({.plan = network.plan(), .batch = batch}, sums);
  const auto found = results_of(evaluation, network, batch);
  ASSERT_EQ(4U, found.size());  // sums, samples, non-finite ones, the scores for AUROC
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(sums[i], found[0][i], 1e-4);
  EXPECT_EQ(3.0F, found[1][0]);
  EXPECT_EQ(0.0F, found[2][0]);
  EXPECT_LT(relative_error(found[3], output.data), 1e-5);
  const auto predicted = results_of(make_prediction_program(setup), network, batch);
  EXPECT_EQ(found[3], predicted.at(0));
}

// As the CPU, whose pipeline normalises: bytes cost a quarter on the way to the device.
TEST(ForwardProgram, NormalisesBytes) {
  if (!testing::have_jax()) GTEST_SKIP() << "no Python with jaxlib (MILLRACE_ORACLE_PYTHON)";
  Network network(dense_graph(), {.batch_size = 4});
  const LossObjective objective({.heads = {{.loss = losses::L1{}, .target = "mask"}}});
  const GraphModel model("small", network.graph());
  const hlo::Program program = hlo::make_prediction_program(
      {.model = model,
       .objective = objective,
       .batch_size = 4,
       .precision = nn::Precision::kFloat32,
       .input_dtype = decode::DType::kUInt8,
       .bytes = {.mean = {0.4F, 0.5F, 0.6F}, .deviation = {0.2F, 0.3F, 0.1F}}});
  const auto batch = testing::program_batch(program, 0, 1, 4);
  std::vector<float> image;
  for (const std::uint8_t byte : batch.field("image").as<std::uint8_t>()) {
    const std::size_t channel = image.size() % 3;
    const std::array<float, 3> mean = {0.4F, 0.5F, 0.6F};
    const std::array<float, 3> deviation = {0.2F, 0.3F, 0.1F};
    image.push_back((static_cast<float>(byte) / 255.0F - mean[channel]) / deviation[channel]);
  }
  const nn::OutputView output = network.forward({image}, nn::Mode::kEvaluate);
  EXPECT_LT(relative_error(results_of(program, network, batch).at(0), output.data), 1e-5);
}

}  // namespace
}  // namespace millrace::trainer
