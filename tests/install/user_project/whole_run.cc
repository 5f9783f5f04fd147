// A user-defined model, two layers of which share their weights, trained with only the installed
// package: shards are written, streamed through a pipeline onto two devices, from a user-defined
// store (own_store.h), and trained with a user-defined loss (own_objective.h). Numbers are read
// through Eigen's maps.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "millrace/decode/eigen.h"
#include "millrace/decode/transforms/normalize.h"
#include "millrace/decode/transforms/resize.h"
#include "millrace/device/device.h"
#include "millrace/pipeline/pipeline.h"
#include "millrace/trainer/feed.h"
#include "millrace/trainer/fit.h"
#include "millrace/trainer/model.h"
#include "millrace/trainer/nn/graph.h"
#include "millrace/trainer/objective.h"
#include "millrace/trainer/replicas.h"
#include "millrace/trainer/rules/adam.h"
#include "millrace/wds/shard_spec.h"
#include "millrace/wds/shard_writer.h"
#include "own_objective.h"
#include "own_store.h"

namespace mr = millrace;

// 8 x 8 grey pictures: class 0 is bright on the left, class 1 on the right.
void write_shards(const std::string& folder) {
  mr::wds::ShardWriter writer({.pattern = folder + "/train-%06d.tar", .maxcount = 64});
  for (int i = 0; i < 256; ++i) {
    const int label = i % 2;
    std::string picture = "P5\n8 8\n255\n";
    for (int x = 0; x < 64; ++x) {
      const bool right = x % 8 >= 4;
      picture += static_cast<char>((right == (label == 1) ? 160 : 40) + (i * 7 + x * 13) % 60);
    }
    writer.write({.key = std::to_string(1000 + i),
                  .fields = {{"pgm", mr::io::Bytes::copy_of(picture)},
                             {"cls", mr::io::Bytes::copy_of(std::to_string(label))}}});
  }
  writer.finish();
}

// A model is a function that builds a graph. `again` shares the weights of `body`: one parameter,
// one gradient, one place in checkpoints.
mr::trainer::nn::Graph small_net() {
  mr::trainer::nn::GraphBuilder builder;
  auto x = builder.input("image", {1, 8, 8});
  x = builder.relu("relu", builder.conv2d("conv", x, {.channels = 8, .kernel = 3, .padding = 1}));
  const auto body = builder.conv2d("body", x, {.channels = 8, .kernel = 3, .padding = 1});
  x = builder.conv2d(
      "again", builder.relu("relu2", body),
      {.channels = 8, .kernel = 3, .padding = 1, .shared = builder.weights_of(body)});
  x = builder.max_pool2d("pool", x, {.kernel = 2, .stride = 2});
  builder.output("logits", builder.linear("fc", builder.flatten("flatten", x), {.features = 2}));
  return builder.build();
}

// The mean of a batch's pixels, normalised to [-1, 1], in bf16 as the model gets them.
float mean_pixel(const mr::pipeline::PipelineOptions& options) {
  mr::pipeline::Pipeline pipeline(options);
  mr::pipeline::Batch batch;
  pipeline.next(batch);
  const auto pixels = batch.field("image").tensor<Eigen::bfloat16, 4>();  // (N, H, W, C)
  const Eigen::Tensor<float, 0, Eigen::RowMajor, std::ptrdiff_t> mean = pixels.cast<float>().mean();
  return mean();
}

double loss_of(const mr::trainer::EpochEvent& epoch) { return epoch.train.front().second; }

int main() {
  const std::string folder =
      (std::filesystem::temp_directory_path() / "millrace-whole-run").string();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  write_shards(folder);

  const auto devices = mr::device::DeviceSet::cpu(2);
  mr::trainer::DeviceThreads threads(devices);
  mr::pipeline::PipelineOptions options;
  // The shards are read from a store of one's own.
  options.opener =
      std::make_shared<mr::io::UrlOpener>(mr::io::UrlOpenerOptions{.stores = {own_store(folder)}});
  options.shards = mr::wds::expand_shards("az://train-{000000..000003}.tar");
  options.shuffle = {.shards = true, .buffer_samples = 100, .seed = 1};
  options.fields = {mr::pipeline::ImageField{.transforms = {mr::decode::Resize{{8, 8}},
                                                            mr::decode::Normalize{{0.5F}, {0.5F}}},
                                             .channels = 1,
                                             .dtype = mr::decode::DType::kBFloat16},
                    mr::pipeline::LabelField{.classes = 2}};
  options.batch = {.size = 16};
  mr::trainer::LoaderFeed feed(options, devices);

  const float mean = mean_pixel(options);
  const mr::trainer::GraphModel model("small_net", small_net());
  const OwnObjective objective;
  const auto result =
      mr::trainer::fit({.model = model, .objective = objective, .train = feed, .devices = threads},
                       {.epochs = 4,
                        .precision = mr::trainer::nn::Precision::kFloat32,
                        .optimizer = {.rule = mr::trainer::Adam{.lr = 0.01}}});
  std::filesystem::remove_all(folder);

  const double first = loss_of(result.epochs.front());
  const double last = loss_of(result.epochs.back());
  std::printf("loss %.3f in the first epoch, %.3f in the last\n", first, last);
  std::printf("mean pixel %.3f\n", static_cast<double>(mean));
  return last < first / 2 && mean > -0.2F && mean < 0.2F ? 0 : 1;
}
