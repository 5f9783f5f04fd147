#include "trainer/models/airbench94.h"

#include <string>

#include "io/base/error.h"

namespace millrace::trainer::models {
namespace {

using nn::GraphBuilder;
using nn::Init;
using nn::Value;

constexpr nn::BatchNorm kNorm{.epsilon = 1e-12F, .momentum = 0.4F};

Value whitened(GraphBuilder& builder, Value x, int samples) {
  constexpr std::int64_t kKernel = 2;
  const std::int64_t patch = builder.shape(x)[0] * kKernel * kKernel;
  x = builder.conv2d("whiten", x,
                     {.channels = 2 * patch,
                      .kernel = kKernel,
                      .init = Init::kWhitening,
                      .init_samples = samples,
                      .shared = {}});
  return builder.gelu("gelu", x);
}

Value convolved(GraphBuilder& builder, const std::string& name, Value x, std::int64_t channels) {
  return builder.conv2d(name, x,
                        {.channels = channels,
                         .kernel = 3,
                         .padding = 1,
                         .bias = false,
                         .init = Init::kDirac,
                         .shared = {}});
}

Value group(GraphBuilder& builder, const std::string& name, Value x, std::int64_t channels) {
  x = convolved(builder, name + ".conv1", x, channels);
  x = builder.max_pool2d(name + ".pool", x);
  x = builder.gelu(name + ".gelu1", builder.batch_norm(name + ".norm1", x, kNorm));
  x = convolved(builder, name + ".conv2", x, channels);
  return builder.gelu(name + ".gelu2", builder.batch_norm(name + ".norm2", x, kNorm));
}

nn::Graph build(const ModelOptions& options, const Airbench94& net) {
  GraphBuilder builder;
  Value x =
      builder.input("image", {options.in_channels, options.image.height, options.image.width});
  x = whitened(builder, x, net.whitening_samples);
  for (std::size_t i = 0; i < net.channels.size(); ++i)
    x = group(builder, "group" + std::to_string(i + 1), x, net.channels[i]);
  x = builder.flatten("flatten", builder.max_pool2d("pool", x, {.kernel = 3, .stride = 3}));
  x = builder.linear(
      "head", x,
      {.features = options.num_classes, .bias = false, .init = Init::kUniformMean, .shared = {}});
  builder.output("logits", x);
  return builder.build();
}

}  // namespace

const ComponentName Airbench94::kName = {"airbench94", "Airbench94",
                                         "Small network that learns CIFAR-10 in few epochs"};

void Airbench94::fields(FieldList& field) {
  field("channels", channels, {.min = 1, .max = 1 << 16}, "Of the three groups");
  field.by_name();
  field("whitening_samples", whitening_samples, {.min = 0},
        "Samples of the first epoch, without augmentation, that the first filters whiten; 0: those "
        "of "
        "the first step, with it");
}

void Airbench94::check() const {
  require(channels.size() == 3, "channels are three, such as [64, 256, 256]");
}

std::unique_ptr<Architecture> Airbench94::make() const {
  return make_architecture(
      {.side = 32}, [net = *this](const ModelOptions& options) { return build(options, net); });
}

}  // namespace millrace::trainer::models
