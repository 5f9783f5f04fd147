#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "io/base/error.h"
#include "trainer/models/models.h"
#include "trainer/nn/fusion.h"
#include "trainer/nn/graph.h"
#include "trainer/nn/summary.h"

namespace millrace::trainer::nn {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::function<void(GraphBuilder&, Value)>& build) {
  GraphBuilder builder;
  const Value image = builder.input("image", {3, 8, 8});
  try {
    build(builder, image);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  }
  return "nothing was refused";
}

TEST(GraphBuilder, InfersShapesAsPyTorchDoes) {
  GraphBuilder builder;
  Value x = builder.input("image", {3, 33, 32});
  x = builder.conv2d("conv", x, {.channels = 8, .kernel = 3, .stride = 2, .padding = 1});
  EXPECT_EQ(builder.shape(x), (Shape{8, 17, 16}));
  x = builder.conv2d("dilated", x, {.channels = 4, .kernel = {3, 1}, .dilation = 2});
  EXPECT_EQ(builder.shape(x), (Shape{4, 13, 16}));
  x = builder.max_pool2d("pool", x, {.kernel = 3, .stride = 2, .padding = 1});
  EXPECT_EQ(builder.shape(x), (Shape{4, 7, 8}));
  EXPECT_EQ(builder.shape(builder.adaptive_avg_pool2d("avg", x, {.size = {2, 3}})),
            (Shape{4, 2, 3}));
  EXPECT_EQ(builder.shape(builder.flatten("flatten", x)), (Shape{224}));
}

TEST(GraphBuilder, NamesTheLayerAndTheShapesThatDoNotFit) {
  const auto add = refusal([](GraphBuilder& builder, Value x) {
    builder.add("sum", x, builder.conv2d("conv", x, {.channels = 4, .kernel = 1}));
  });
  EXPECT_THAT(add, HasSubstr("add sum"));
  EXPECT_THAT(add, HasSubstr("(3, 8, 8) of image and (4, 8, 8) of conv"));
  EXPECT_THAT(refusal([](GraphBuilder& builder, Value x) { builder.linear("fc", x, {}); }),
              HasSubstr("linear fc: needs features (F); flatten first, got (3, 8, 8) of image"));
  EXPECT_THAT(refusal([](GraphBuilder& builder, Value x) {
                builder.conv2d("conv", x, {.channels = 4, .kernel = 9});
              }),
              HasSubstr("the image is smaller than the kernel"));
  EXPECT_THAT(refusal([](GraphBuilder& builder, Value x) {
                builder.relu("twice", x);
                builder.relu("twice", x);
              }),
              HasSubstr("two layers named twice"));
}

TEST(GraphBuilder, OrdersParametersFromTheLastLayerToTheFirst) {
  GraphBuilder builder;
  Value x = builder.input("image", {3, 8, 8});
  x = builder.conv2d("conv", x, {.channels = 4, .kernel = 3});
  x = builder.batch_norm("bn", x);
  builder.output("logits", builder.linear("fc", builder.flatten("flat", x), {.features = 2}));
  const Graph graph = builder.build();
  std::vector<std::string> names;
  for (const Parameter& entry : graph.parameters().entries()) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"fc.bias", "fc.weight", "bn.bias", "bn.weight",
                                             "conv.bias", "conv.weight"}));
  EXPECT_EQ(graph.parameters().find("conv.weight")->shape, (Shape{4, 3, 3, 3}));
  EXPECT_FALSE(graph.parameters().find("bn.weight")->decay);
  EXPECT_TRUE(graph.parameters().find("fc.weight")->decay);
  EXPECT_NE(graph.buffers().find("bn.num_batches_tracked"), nullptr);
}

TEST(Graph, StartsWeightsWithPyTorchsDistributions) {
  GraphBuilder builder;
  Value x = builder.input("image", {16, 8, 8});
  x = builder.conv2d("conv", x,
                     {.channels = 64, .kernel = 3, .bias = false, .init = Init::kKaimingNormal});
  builder.output("logits", builder.linear("fc", builder.flatten("flat", x), {.features = 10}));
  const Graph graph = builder.build();
  std::vector<float> weights(graph.parameters().padded_size());
  graph.initialise(3, weights, {});
  const auto values = [&](const std::string& name) {
    const Parameter* entry = graph.parameters().find(name);
    return std::span(weights).subspan(entry->offset, entry->size);
  };
  double squares = 0;
  for (const float w : values("conv.weight")) squares += static_cast<double>(w * w);
  EXPECT_NEAR(squares / (64 * 16 * 9), 2.0 / (64 * 9), 0.1 / (64 * 9));
  const float bound = 1.0F / std::sqrt(64.0F * 36.0F);
  EXPECT_NEAR(*std::ranges::max_element(values("fc.weight")), bound, bound * 0.01F);
  EXPECT_NEAR(*std::ranges::min_element(values("fc.weight")), -bound, bound * 0.01F);
}

TEST(Graph, HasTorchvisionsParameterCounts) {
  const auto count = [](std::string_view name, std::int64_t classes) {
    return build_model(name, {.num_classes = classes}).parameters().num_values();
  };
  EXPECT_EQ(count("resnet18", 1000), 11'689'512U);
  EXPECT_EQ(count("resnet34", 1000), 21'797'672U);
  EXPECT_EQ(count("resnet34", 10), 21'289'802U);
  EXPECT_EQ(count("resnet50", 1000), 25'557'032U);
  EXPECT_EQ(count("resnext50_32x4d", 1000), 25'028'904U);
  EXPECT_EQ(count("wide_resnet50_2", 1000), 68'883'240U);
  EXPECT_EQ(count("mobilenet_v3_large", 1000), 5'483'032U);
  EXPECT_EQ(count("mobilenet_v3_small", 1000), 2'542'856U);
  EXPECT_EQ(count("convnext_tiny", 1000), 28'589'128U);
  EXPECT_EQ(count("efficientnet_b0", 1000), 5'288'548U);
  EXPECT_EQ(count("vit_b_16", 1000), 86'567'656U);
  EXPECT_EQ(count("vit_s_16", 1000), 22'050'664U);
  EXPECT_EQ(count("alexnet", 1000), 61'100'840U);
  EXPECT_EQ(count("alexnet", 10), 57'044'810U);
  const auto airbench94 = build_model("airbench94", {.num_classes = 10, .image = 32});
  EXPECT_EQ(airbench94.parameters().num_values(), 1'972'792U);
  const auto lenet = build_model("lenet", {.num_classes = 10, .in_channels = 1, .image = 28});
  EXPECT_EQ(lenet.parameters().num_values(), 61'706U);
}

TEST(Models, ResNetsLeaveLaterBlocksOutMoreOften) {
  const ModelOptions options{.num_classes = 10, .image = 32};
  const auto depths = [&](const std::string& model) {
    const Graph graph = build_model(model, options);
    std::vector<std::pair<std::string, float>> found;
    for (const Node& node : graph.nodes())
      if (const auto* depth = std::get_if<StochasticDepth>(&node.layer))
        found.emplace_back(node.name, depth->probability);
    return found;
  };
  EXPECT_TRUE(depths("resnet18").empty());
  for (const std::string net : {"resnet18", "resnet34", "resnet50", "resnext50_32x4d"}) {
    const auto found = depths(net + "(stochastic_depth=0.5)");
    const std::size_t later = net == "resnet18" ? 7 : 15;
    ASSERT_EQ(found.size(), later) << net << ": the first has none";
    EXPECT_EQ(found.front().first, "layer1.1.stochastic_depth");
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i].second, 0.5 * static_cast<double>(i + 1) / static_cast<double>(later),
                  1e-6)
          << i;
  }
}

TEST(Models, ResNetsWithZeroInitResidualBeginAsTheirShortcuts) {
  const auto first_scales = [](const std::string& model) {
    const Graph graph = build_model(model, {.num_classes = 10, .image = 32});
    std::vector<float> weights(graph.parameters().padded_size());
    std::vector<float> buffers(graph.buffers().padded_size());
    graph.initialise(3, weights, buffers);
    std::map<std::string, float> found;
    for (const Parameter& entry : graph.parameters().entries())
      found[entry.name] = weights[entry.offset];
    return found;
  };
  auto scales = first_scales("resnet18(zero_init_residual)");
  EXPECT_EQ(scales["layer1.0.bn1.weight"], 1);
  EXPECT_EQ(scales["layer1.0.bn2.weight"], 0);
  EXPECT_EQ(scales["layer4.1.bn2.weight"], 0);
  EXPECT_EQ(scales["layer4.0.downsample.1.weight"], 1);
  EXPECT_EQ(first_scales("resnet18")["layer1.0.bn2.weight"], 1);
  scales = first_scales("resnet50(zero_init_residual)");
  EXPECT_EQ(scales["layer3.5.bn2.weight"], 1);
  EXPECT_EQ(scales["layer3.5.bn3.weight"], 0);
}

TEST(Models, UNetHasTwoHeadsOfTheImagesSize) {
  const Graph graph = build_model("unet", {.image = 96});
  ASSERT_EQ(graph.outputs().size(), 2U);
  EXPECT_EQ(graph.outputs()[0].name, "mask");
  for (const GraphOutput& output : graph.outputs()) {
    EXPECT_EQ(graph.node(output.value).shape, (Shape{1, 96, 96}));
  }
  EXPECT_NEAR(static_cast<double>(graph.parameters().num_values()), 30e6, 1.5e6);
  EXPECT_THROW(build_model("unet", {.image = 100}), Error);
}

TEST(Summary, CountsWhatIsKnownOfResNet50) {
  const Graph graph = build_model("resnet50", {});
  std::size_t parameters = 0;
  std::int64_t operations = 0;
  for (const LayerSummary& layer : summarise(graph)) {
    parameters += layer.parameters;
    operations += layer.multiply_adds;
  }
  EXPECT_EQ(parameters, 25'557'032U);
  EXPECT_NEAR(static_cast<double>(operations), 4.09e9, 0.01e9);
  EXPECT_THAT(summary_text(graph), HasSubstr("layer4.2.conv3"));
}

TEST(GraphBuilder, SharesAParameterByItsHandle) {
  GraphBuilder builder;
  const Value x = builder.input("features", {8});
  const Value first = builder.linear("first", x, {.features = 8});
  const Value second =
      builder.linear("second", first, {.features = 8, .shared = builder.weights_of(first)});
  builder.output("y", second);
  const SharedWeights shared = builder.weights_of(first);
  EXPECT_THROW(builder.linear("third", second, {.features = 9, .shared = shared}), Error);
}

TEST(Models, RefuseAnUnknownNameWithTheNearest) {
  EXPECT_THROW(
      {
        try {
          build_model("resnet19", {});
        } catch (const Error& error) {
          EXPECT_THAT(error.message(), HasSubstr("resnet18"));
          throw;
        }
      },
      Error);
}

TEST(Fusion, JoinsBatchNormAdditionAndRelu) {
  const Graph graph = build_model("resnet18", {});
  std::size_t with_residual = 0;
  for (const Group& group : fuse(graph)) {
    EXPECT_FALSE(std::holds_alternative<Relu>(graph.nodes()[group.head].layer));
    EXPECT_FALSE(std::holds_alternative<Add>(graph.nodes()[group.head].layer));
    with_residual += group.residual ? 1 : 0;
  }
  EXPECT_EQ(with_residual, 8U);
}

TEST(Fusion, KeepsAValueThatSomebodyElseReads) {
  GraphBuilder builder;
  const Value x = builder.input("image", {4, 8, 8});
  const Value norm = builder.batch_norm("bn", x);
  builder.output("sum", builder.add("sum", norm, builder.relu("relu", norm)));
  EXPECT_EQ(fuse(builder.build()).size(), 3U);
}

}  // namespace
}  // namespace millrace::trainer::nn
