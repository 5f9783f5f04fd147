// The order is a function of the options alone: threads, prefetch, autotune, transport and its
// faults change nothing, for random options.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "decode/transforms/normalize.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "io/base/rng.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"
#include "tests/support/effort.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/shard_index.h"

namespace millrace::pipeline {
namespace {

using namespace std::chrono_literals;
using testing::describe_all;
using testing::http_serve;
using testing::ScriptedReply;
using testing::ScriptedRequest;

std::string small_picture(int value) {
  std::string text = "P6\n6 6\n255\n";
  for (int i = 0; i < 6 * 6 * 3; ++i) text += static_cast<char>((value * 7 + i * 5) & 0xFF);
  return text;
}

/// Uneven shards of pictures, in two folders: with indexes and without.
class OrderedShards {
 public:
  OrderedShards() {
    int shard = 0;
    for (const int count : {17, 6, 35, 8, 23, 9, 30, 14}) write(shard++, count);
  }

  std::vector<std::string> urls(bool indexed, const std::string& base) const {
    std::vector<std::string> urls;
    for (int shard = 0; shard < 8; ++shard)
      urls.push_back(base + (indexed ? "/indexed/" : "/plain/") + std::to_string(shard) + ".tar");
    return urls;
  }
  std::string folder() const { return folder_.path().string(); }

 private:
  void write(int shard, int count) const {
    testing::TarBuilder tar;
    for (int i = 0; i < count; ++i) {
      const std::string key = std::to_string(shard) + "-" + std::to_string(i);
      tar.file(key + ".cls", std::to_string(i % 10))
          .file(key + ".ppm", small_picture(31 * shard + i));
    }
    const std::string bytes = tar.end().bytes();
    for (const char* kind : {"indexed", "plain"}) {
      const std::string path = folder_ / (std::string(kind) + "/" + std::to_string(shard) + ".tar");
      testing::write_file(path, bytes);
      if (std::string(kind) == "indexed")
        wds::write_index(wds::build_index(io::UrlOpener(), path), wds::index_url(path));
    }
  }

  testing::TempDir folder_;
};

/// All that fixes the order, drawn by `rng`.
PipelineOptions any_options(KeyedRng& rng) {
  PipelineOptions options;
  options.indexed = true;
  options.fields = {ImageField{.transforms = {decode::RandomCrop{{6, 6}, 2},
                                              decode::RandomHorizontalFlip{}, decode::Normalize{}},
                               .dtype = decode::DType::kBFloat16},
                    LabelField{.classes = 10}};
  const std::uint64_t processes = 1 + rng.below(2);
  options.split = {.topology = {.process = static_cast<int>(rng.below(processes)),
                                .processes = static_cast<int>(processes)},
                   .workers = static_cast<int>(1 + rng.below(3))};
  options.shuffle = {.shards = rng.below(2) == 0,
                     .buffer_samples = static_cast<std::int64_t>(rng.below(3) * 20),
                     .seed = rng.below(1000)};
  if (rng.below(4) == 0) options.shuffle.order = wds::Order::kWebDataset;
  options.batch.size = static_cast<std::int64_t>(1 + rng.below(24));
  options.epochs.first = static_cast<std::uint32_t>(rng.below(5));
  options.epochs.count = 2;
  if (rng.below(3) == 0) options.epochs.samples = static_cast<std::int64_t>(20 + rng.below(200));
  options.epochs.resampled = options.epochs.samples > 0 && rng.below(3) == 0;
  return options;
}

/// The shards' folder over HTTP, where every `fault_every`-th reply breaks off in its middle.
ScriptedReply serve(const std::string& folder, std::uint64_t fault_every,
                    const ScriptedRequest& request) {
  const std::string path = folder + request.target;
  if (!std::filesystem::exists(path)) return {testing::http_reply(404, "", "")};
  const std::string reply = http_serve(request, testing::read_file(path), "ETag: \"1\"\r\n");
  if (static_cast<std::uint64_t>(request.number) % fault_every != 2) return {reply};
  return {reply.substr(0, reply.size() - reply.size() / 3), testing::After::kReset};
}

std::vector<std::string> batches_of(PipelineOptions options, int threads, int prefetch) {
  options.resources.threads = threads;
  options.resources.prefetch = prefetch;
  options.resources.autotune.on = false;
  Pipeline pipeline(std::move(options));
  return describe_all(pipeline);
}

/// The same with settings that change from batch to batch.
std::vector<std::string> tuned_batches_of(PipelineOptions options, int& num_tuned) {
  options.resources = {.threads = 1,
                       .io_threads = 1,
                       .autotune = {.interval = 0ms, .most_threads = 4, .most_io_threads = 4}};
  Pipeline pipeline(std::move(options));
  auto batches = describe_all(pipeline);
  const Tuning tuning = pipeline.statistics().tuning;
  if (tuning.readers > 1 || tuning.decode_threads > 1 || tuning.read_ahead > 2) ++num_tuned;
  return batches;
}

TEST(OrderProperty, NothingButTheOptionsDecides) {
  const std::uint64_t configurations = testing::is_long() ? 200 : testing::thinned(60);
  int num_tuned = 0;
  const OrderedShards shards;
  const testing::ScriptedHttpServer server(
      [&](const ScriptedRequest& request) { return serve(shards.folder(), 5, request); });
  io::UrlOpenerOptions brisk;
  brisk.http.retry.first_backoff = brisk.http.retry.max_backoff = std::chrono::milliseconds(1);
  const auto network = std::make_shared<const io::UrlOpener>(brisk);
  for (std::uint64_t seed = 0; seed < configurations; ++seed) {
    KeyedRng rng({.seed = seed});
    PipelineOptions options = any_options(rng);
    const bool indexed = rng.below(2) == 0;
    options.shards = shards.urls(indexed, shards.folder());
    const auto expected = batches_of(options, 1, 1);
    EXPECT_EQ(expected, batches_of(options, 2, 16)) << seed;
    EXPECT_EQ(expected, batches_of(options, 8, 4)) << seed;
    EXPECT_EQ(expected, tuned_batches_of(options, num_tuned)) << seed;
    if (seed % 4 != 0) continue;
    options.shards = shards.urls(indexed, server.url(""));
    options.opener = network;
    EXPECT_EQ(expected, batches_of(options, 3, 3)) << seed << " over HTTP";
  }
  EXPECT_GT(num_tuned, 0);
}

}  // namespace
}  // namespace millrace::pipeline
