// Weights that several layers share: in graphs, in training, and in files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "io/base/error.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/fakes.h"
#include "trainer/fit.h"
#include "trainer/nn/tie.h"
#include "trainer/weights.h"

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_samples;
using testing::MemoryFeed;

constexpr std::int64_t kTiedWidth = 12;
constexpr std::int64_t kTiedClasses = 4;

/// Two hidden layers of one shape, and a head.
nn::Graph separate() {
  nn::GraphBuilder builder;
  nn::Value x = builder.input("x", {kTiedWidth});
  x = builder.relu("relu1", builder.linear("first", x, {.features = kTiedWidth}));
  x = builder.relu("relu2", builder.linear("second", x, {.features = kTiedWidth}));
  builder.output("logits", builder.linear("head", x, {.features = kTiedClasses}));
  return builder.build();
}

/// The same, the second layer with the first one's weights.
nn::Graph shared() {
  nn::GraphBuilder builder;
  const nn::Value x = builder.input("x", {kTiedWidth});
  const nn::Value first = builder.linear("first", x, {.features = kTiedWidth});
  const nn::Value second =
      builder.linear("second", builder.relu("relu1", first),
                     {.features = kTiedWidth, .shared = builder.weights_of(first)});
  builder.output("logits",
                 builder.linear("head", builder.relu("relu2", second), {.features = kTiedClasses}));
  return builder.build();
}

struct TiedTraining {
  std::string log = {};
  std::string init = {};
  TieHook tie = {};
};

std::vector<double> train(const nn::Graph& graph, int world, const TiedTraining& how = {}) {
  const device::DeviceSet set = device::DeviceSet::cpu(world);
  DeviceThreads devices(set);
  MemoryFeed feed(make_samples(96, kTiedWidth, kTiedClasses, 1), 24 / world, world);
  const GraphModel model("m", graph);
  const LossObjective objective({.inputs = {"x"}, .heads = {Head{}}});
  TrainOptions options;
  options.init = how.init;
  if (!how.log.empty()) options.log = Log::to_file(how.log);
  options.precision = nn::Precision::kFloat32;
  options.seed = 3;
  options.optimizer.rule = Sgd{.lr = 0.1, .momentum = 0};
  testing::Recorder recorder;
  fit({.model = model, .objective = objective, .train = feed, .devices = devices, .tie = how.tie},
      options, {&recorder});
  return recorder.losses;
}

std::vector<std::string> names_of(const nn::Graph& graph) {
  std::vector<std::string> names;
  for (const Parameter& entry : graph.parameters().entries()) names.push_back(entry.name);
  return names;
}

TEST(TiedWeights, AreOneParameterWithSeveralNames) {
  const nn::Graph graph = shared();
  EXPECT_THAT(names_of(graph),
              ElementsAre("head.bias", "head.weight", "first.bias", "first.weight"));
  EXPECT_EQ(graph.parameters().find("first.weight"), graph.parameters().find("second.weight"));
  EXPECT_EQ(separate().parameters().num_values(), graph.parameters().num_untied_values());
  EXPECT_EQ(separate().parameters().num_values() - kTiedWidth * (kTiedWidth + 1),
            graph.parameters().num_values());
}

TEST(TiedWeights, MayBeTiedWhenTheModelIsBuilt) {
  for (const nn::Tie& tie :
       {nn::Tie{.layer = "second", .to = "first"}, nn::Tie{.layer = "first", .to = "second"}}) {
    const nn::Graph tied = tie_weights(separate(), tie);
    EXPECT_EQ(names_of(shared()), names_of(tied));
    EXPECT_THAT(tied.parameters().find("second.bias")->aliases, ElementsAre("second.bias"));
  }
  EXPECT_EQ(names_of(shared()), names_of(tie_weights(shared(), {.layer = "first", .to = "second"})))
      << "tied once is tied";
  for (const nn::Tie& wrong :
       {nn::Tie{.layer = "head", .to = "first"}, nn::Tie{.layer = "third", .to = "first"},
        nn::Tie{.layer = "relu1", .to = "first"}}) {
    EXPECT_THROW(tie_weights(separate(), wrong), Error) << wrong.layer;
  }
}

TEST(TiedWeights, StayTiedOverDevicesAndSteps) {
  const nn::Graph graph = tie_weights(separate(), {.layer = "second", .to = "first"});
  const auto one = train(graph, 1);
  const auto two = train(graph, 2);
  ASSERT_EQ(4U, one.size());
  EXPECT_LT(one.back(), one.front());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-5 * one[i]);
  EXPECT_EQ(one, train(shared(), 1)) << "by the handle or afterwards";
}

TEST(TiedWeights, MayBeTiedByAHookOfTheRun) {
  const testing::TempDir folder;
  const TieHook hook = [](const nn::Graph& graph) {
    return tie_weights(graph, {.layer = "second", .to = "first"});
  };
  EXPECT_EQ(train(shared(), 1), train(separate(), 1, {.log = folder / "log", .tie = hook}));
  EXPECT_THAT(testing::read_file(folder / "log"),
              HasSubstr("The model has 364 parameters before its layers are tied, 208 after"));
}

TEST(TiedWeights, AModelWithoutAGraphHasNothingToTie) {
  const testing::LinearModel model(2, 2);
  EXPECT_THROW(model.tied([](const nn::Graph& graph) { return graph; }), Error);
}

TEST(TiedWeights, AreCountedWhenTheRunBegins) {
  const testing::TempDir folder;
  train(shared(), 1, {.log = folder / "log"});
  EXPECT_THAT(testing::read_file(folder / "log"),
              HasSubstr("Tied weights: 208 parameters where untied layers would have 364"));
  train(separate(), 1, {.log = folder / "plain"});
  EXPECT_THAT(testing::read_file(folder / "plain"), ::testing::Not(HasSubstr("Tied weights")));
}

/// A graph's parameters, in memory.
struct Buffers {
  explicit Buffers(const nn::Graph& from, std::uint64_t seed = 1)
      : graph(from), values(graph.parameters().padded_size()) {
    graph.initialise(seed, values, {});
  }
  std::vector<FlatTensors> tensors() { return {{.table = &graph.parameters(), .values = values}}; }
  std::span<float> of(const std::string& name) {
    const Parameter* entry = graph.parameters().find(name);
    return std::span(values).subspan(entry->offset, entry->size);
  }
  void copy(const std::string& from, const std::string& to) {
    std::ranges::copy(of(from), of(to).begin());
  }
  nn::Graph graph;
  std::vector<float> values;
};

TEST(TiedWeights, AFileMayHaveBothNames) {
  const testing::TempDir folder;
  Buffers file(separate());
  file.copy("first.weight", "second.weight");
  file.copy("first.bias", "second.bias");
  save_weights(folder / "w.safetensors", file.tensors());
  Buffers model(shared(), 2);
  const LoadedWeights loaded = load_weights(folder / "w.safetensors", model.tensors());
  EXPECT_THAT(loaded.warnings, ElementsAre());
  EXPECT_TRUE(std::ranges::equal(file.of("first.weight"), model.of("second.weight")));
}

TEST(TiedWeights, ATieThatTheFileDoesNotHoldIsWarnedOf) {
  const testing::TempDir folder;
  Buffers file(separate());
  file.copy("first.bias", "second.bias");
  save_weights(folder / "w.safetensors", file.tensors());
  train(shared(), 1, {.log = folder / "log", .init = folder / "w.safetensors"});
  EXPECT_THAT(testing::read_file(folder / "log"),
              HasSubstr("w.safetensors: second.weight is tied to first.weight in the model and "
                        "differs from it in the file"));
}

TEST(TiedWeights, ATieThatTheModelLostIsWarnedOf) {
  const testing::TempDir folder;
  Buffers file(separate());
  std::ranges::fill(file.of("first.bias"), 0.0F);
  std::ranges::fill(file.of("second.bias"), 0.0F);
  file.copy("first.weight", "second.weight");
  save_weights(folder / "w.safetensors", file.tensors());
  Buffers model(separate(), 2);
  const LoadedWeights loaded = load_weights(folder / "w.safetensors", model.tensors());
  EXPECT_THAT(loaded.warnings,
              ElementsAre("first.weight equals second.weight in the file, as if tied, and is a "
                          "parameter of its own in the model"))
      << "that both biases are zero says nothing";
}

/// Two layers of one shape: the head may be tied to the first, or be replaced.
nn::Graph square() {
  nn::GraphBuilder builder;
  const nn::Value x = builder.input("x", {kTiedWidth});
  const nn::Value first =
      builder.relu("relu", builder.linear("first", x, {.features = kTiedWidth}));
  builder.output("logits", builder.linear("head", first, {.features = kTiedWidth}));
  return builder.build();
}

TEST(TiedWeights, AHeadThatIsTiedCannotBeReplaced) {
  const testing::TempDir folder;
  Buffers file(square());
  save_weights(folder / "w.safetensors", file.tensors());
  Buffers model(square(), 2);
  const auto loaded =
      load_weights(folder / "w.safetensors", model.tensors(), {.replace_head = true});
  EXPECT_THAT(loaded.kept, ElementsAre("head.bias", "head.weight"));
  Buffers tied(tie_weights(square(), {.layer = "head", .to = "first"}), 2);
  try {
    load_weights(folder / "w.safetensors", tied.tensors(), {.replace_head = true});
    FAIL() << "first kept its start values in head's place";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("the last layer, head, has no weights of its own"));
  }
}

TEST(TiedWeights, ACheckpointMustHoldTheModelsTies) {
  Buffers file(separate());
  const testing::TempDir folder;
  save_weights(folder / "w.safetensors", file.tensors());
  const Safetensors untied =
      parse_safetensors(io::Bytes::copy_of(testing::read_file(folder / "w.safetensors")));
  Buffers model(shared(), 2);
  const std::vector<float> before = model.values;
  EXPECT_THROW(copy_flat_tensors(untied, model.tensors()), Error);
  EXPECT_EQ(before, model.values);
}

}  // namespace
}  // namespace millrace::trainer
