// The pipeline over real shards: files, images, shuffle buffers, damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "decode/encode.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/resize.h"
#include "io/base/error.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"
#include "tests/support/effort.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

namespace millrace::pipeline {
namespace {

using testing::describe_all;
using testing::TarBuilder;
using testing::TempDir;

std::string ppm(int height, int width, int value) {
  std::string text = "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
  for (int i = 0; i < height * width * 3; ++i) text += static_cast<char>((value + i) & 0xFF);
  return text;
}

/// Shards of 8 × 8 pictures; sample i of shard s has the key "s-i" and the label i mod 10.
class Shards {
 public:
  Shards(int count, int samples) {
    for (int s = 0; s < count; ++s) write(s, samples + 3 * s);
  }
  std::vector<std::string> urls() const { return urls_; }
  /// The shard's file.
  const std::string& path(std::size_t shard) const { return urls_[shard]; }

 private:
  void write(int shard, int samples) {
    TarBuilder tar;
    for (int i = 0; i < samples; ++i) {
      const std::string key = std::to_string(shard) + "-" + std::to_string(i);
      tar.file(key + ".cls", std::to_string(i % 10)).file(key + ".ppm", ppm(8, 8, shard + i));
    }
    urls_.push_back(folder_ / ("x-" + std::to_string(shard) + ".tar"));
    testing::write_file(urls_.back(), tar.end().bytes());
  }

  TempDir folder_;
  std::vector<std::string> urls_;
};

Pipeline::Builder builder(const Shards& shards) {
  return Pipeline::Builder()
      .shards(shards.urls())
      .split({.workers = 2})
      .shuffle({.shards = true, .buffer_samples = 20, .seed = 3})
      .field(ImageField{.transforms = {decode::RandomCrop{{8, 8}, 2},
                                       decode::RandomHorizontalFlip{}, decode::Normalize{}},
                        .dtype = decode::DType::kBFloat16})
      .field(LabelField{.classes = 10})
      .batch({.size = 8})
      .epochs({.count = 2})
      .resources({.threads = 2});
}

PairedImagesField picture_and_mask() {
  return {.geometry = {decode::Resize{{8, 8}}},
          .members = {{.name = "image"},
                      {.name = "mask",
                       .suffixes = "mask.png",
                       .channels = 1,
                       .dtype = decode::DType::kUInt8,
                       .interpolation = decode::Interpolation::kNearest}}};
}

TEST(PipelineOverShards, ADamagedMaskIsNamedWithItsShardAndOffset) {
  const TempDir folder;
  const std::string cut(
      decode::encode_png({8, 8, 1, io::Bytes::copy_of(std::string(64, 'm'))}).text().substr(0, 40));
  testing::write_file(
      folder / "x.tar",
      TarBuilder().file("a.ppm", ppm(8, 8, 0)).file("a.mask.png", cut).end().bytes());
  Pipeline pipeline = Pipeline::Builder()
                          .shards(folder / "x.tar")
                          .field(picture_and_mask())
                          .batch({.size = 1})
                          .build();
  Batch batch;
  try {
    pipeline.next(batch);
    FAIL() << "a cut mask is a fault";
  } catch (const Error& error) {
    EXPECT_EQ(error.where().url, folder / "x.tar");
    EXPECT_EQ(error.where().member, "a.mask.png");
    EXPECT_EQ(error.where().offset,
              512U * 3);  // after the picture's header and data, and its own header
  }
}

TEST(PipelineOverShards, UntidyImagesAreDecodedAndCounted) {
  const TempDir folder;
  const std::string jpeg(
      decode::encode_jpeg({8, 8, 3, io::Bytes::copy_of(std::string(192, 'p'))}).text());
  std::string untidy = jpeg;
  untidy.insert(2, std::string("\xff\xfe\0\0", 4));  // a comment of length 0
  testing::write_file(
      folder / "x.tar",
      TarBuilder().file("a.jpg", jpeg).file("b.jpg", untidy).file("c.jpg", jpeg).end().bytes());
  Pipeline pipeline = Pipeline::Builder()
                          .shards(folder / "x.tar")
                          .field(ImageField{.transforms = {decode::Resize{{8, 8}}}})
                          .batch({.size = 3})
                          .build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_EQ(batch.num_valid, 3);
  EXPECT_EQ(pipeline.statistics().untidy, 1U);
  EXPECT_THAT(pipeline.statistics().to_text(), ::testing::HasSubstr("untidy"));
}

TEST(PipelineOverShards, GivesEverySampleOnceAnEpochInAnotherOrderEachTime) {
  const Shards shards(4, 12);
  Pipeline pipeline = builder(shards).build();
  std::vector<std::vector<std::string>> epochs;
  while (!pipeline.finished()) {
    epochs.emplace_back();
    for (Batch batch; pipeline.next(batch);) {
      for (const std::string& key : batch.keys) {
        if (!key.empty()) epochs.back().push_back(key);
      }
    }
    EXPECT_EQ(pipeline.ledger()->read(), 66U);
    EXPECT_EQ(pipeline.ledger()->emitted(), 66U);
  }
  ASSERT_EQ(epochs.size(), 2U);
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(std::set(epochs[0].begin(), epochs[0].end()).size(), 66U);
  EXPECT_THAT(epochs[1], ::testing::UnorderedElementsAreArray(epochs[0]));
}

TEST(PipelineOverShards, AUsersOwnSplitterDecidesWhoReadsWhat) {
  const Shards shards(4, 12);
  wds::SplitOptions split{.topology = {.process = 1, .processes = 2}, .workers = 1};
  split.process_splitter = [](const std::vector<std::string>& all, const wds::SplitPart& part) {
    std::vector<std::string> own;  // process 1 has only the last shard
    for (const std::string& url : all) {
      if (url.ends_with("x-3.tar") == (part.index == 1)) own.push_back(url);
    }
    return own;
  };
  Pipeline pipeline = builder(shards).split(split).epochs({.count = 1}).build();
  std::set<std::string> keys;
  for (Batch batch; pipeline.next(batch);) keys.insert(batch.keys.begin(), batch.keys.end());
  keys.erase("");
  EXPECT_EQ(keys.size(), 21U);
  for (const std::string& key : keys) EXPECT_TRUE(key.starts_with("3-")) << key;

  split.worker_splitter = [](const auto&, const auto&) { return std::vector<std::string>(); };
  EXPECT_THROW(builder(shards).split(split).build(), Error);
}

TEST(PipelineOverShards, GivesTheSameBitsForAnyThreads) {
  const Shards shards(4, 12);
  Pipeline one = builder(shards).resources({.threads = 1, .io_threads = 1}).build();
  Pipeline eight = builder(shards).resources({.threads = 8, .prefetch = 9}).build();
  EXPECT_EQ(describe_all(one), describe_all(eight));
}

TEST(PipelineOverShards, ResumesInMidEpochWithFullShuffleBuffers) {
  const Shards shards(4, 12);
  testing::expect_same_after_any_resume(builder(shards).options());
}

TEST(PipelineOverShards, EndsOrRepeatsAnEpochAtItsNumberOfSamples) {
  const Shards shards(4, 12);
  for (const std::int64_t samples : {1, 40, 66, 200}) {
    Pipeline pipeline = builder(shards).epochs({.count = 2, .samples = samples}).build();
    while (!pipeline.finished()) {
      std::int64_t valid = 0;
      for (Batch batch; pipeline.next(batch);) valid += batch.num_valid;
      EXPECT_EQ(valid, samples);
    }
  }
}

TEST(PipelineOverShards, DrawsShardsWithReplacementWhenResampled) {
  const Shards shards(2, 12);
  const auto run = [&] {
    Pipeline pipeline =
        builder(shards).epochs({.count = 1, .batches = 20, .resampled = true}).build();
    return describe_all(pipeline);
  };
  const auto first = run();
  EXPECT_EQ(first.size(), 21U);
  EXPECT_EQ(first, run());
}

TEST(PipelineOverShards, NamesTheShardThatWasCut) {
  const Shards shards(2, 30);
  const std::string whole = testing::read_file(shards.path(1));
  testing::write_file(shards.path(1), whole.substr(0, whole.size() / 2));
  Pipeline pipeline = builder(shards).build();
  try {
    for (Batch batch; pipeline.next(batch);) {
    }
    FAIL() << "a cut shard went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTruncated);
    EXPECT_EQ(error.where().url, shards.path(1));
    EXPECT_TRUE(error.where().offset.has_value());
  }
}

TEST(PipelineOverShards, KeepsItsSumsWhenSamplesAreSkipped) {
  TempDir folder;
  TarBuilder tar;
  for (int i = 0; i < 20; ++i) {
    const std::string key = "k" + std::to_string(i);
    tar.file(key + ".cls", i == 7 ? "seven" : std::to_string(i == 9 ? 10 : i % 10));
    if (i != 5) tar.file(key + ".ppm", i == 3 ? "no picture" : ppm(8, 8, i));
  }
  const std::string path = folder / "bad.tar";
  testing::write_file(path, tar.end().bytes());
  const Shards unused(1, 1);
  Pipeline pipeline = builder(unused)
                          .shards(std::vector{path})
                          .split({})
                          .epochs({.count = 1})
                          .faults({.on_fault = wds::OnFault::kSkip})
                          .build();
  std::set<std::string> keys;
  for (Batch batch; pipeline.next(batch);) keys.insert(batch.keys.begin(), batch.keys.end());
  keys.erase("");
  EXPECT_EQ(keys.size(), 16U);
  std::set<std::string> bad;
  for (const auto& entry : pipeline.ledger()->entries()) bad.insert(entry.where.key);
  EXPECT_EQ(bad, (std::set<std::string>{"k3", "k5", "k7", "k9"}));
  EXPECT_EQ(pipeline.ledger()->emitted(), 16U);
  EXPECT_EQ(pipeline.ledger()->skipped(), 4U);
  EXPECT_EQ(pipeline.ledger()->read(), 20U);
}

TEST(PipelineOverShards, ReadsListsOfNumbers) {
  TempDir folder;
  const std::string path = folder / "numbers.tar";
  testing::write_file(path, TarBuilder()
                                .file("a.json", R"({"target":[1,0,0.5]})")
                                .file("a.txt", "1 2.5, -3\n")
                                .file("b.json", R"({"target":[0,1,true]})")
                                .file("b.txt", "4 5 6")
                                .end()
                                .bytes());
  Pipeline pipeline = Pipeline::Builder()
                          .shards(std::vector{path})
                          .field(FloatsField{.size = 3, .json_key = "target"})
                          .field(FloatsField{.name = "more", .suffixes = "txt", .size = 3})
                          .batch({.size = 2})
                          .build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  const auto target = batch.field("target").as<float>();
  EXPECT_THAT(std::vector<float>(target.begin(), target.end()),
              ::testing::ElementsAre(1, 0, 0.5F, 0, 1, 1));
  const auto more = batch.field("more").as<float>();
  EXPECT_THAT(std::vector<float>(more.begin(), more.end()),
              ::testing::ElementsAre(1, 2.5F, -3, 4, 5, 6));
}

TEST(PipelineOverShards, CropsAndFlipsPairedImagesAlike) {
  TempDir folder;
  const std::string path = folder / "pairs.tar";
  TarBuilder tar;
  for (int i = 0; i < 12; ++i) {
    const std::string key = std::to_string(i);
    tar.file(key + ".mask.ppm", ppm(12, 12, 7 * i)).file(key + ".ppm", ppm(12, 12, 7 * i));
  }
  testing::write_file(path, tar.end().bytes());
  const ImageField picture{.dtype = decode::DType::kUInt8};
  const ImageField mask{.name = "mask",
                        .suffixes = "mask.ppm",
                        .dtype = decode::DType::kUInt8,
                        .interpolation = decode::Interpolation::kNearest};
  Pipeline pipeline = Pipeline::Builder()
                          .shards(std::vector{path})
                          .field(PairedImagesField{.geometry = {decode::RandomCrop{{8, 8}, 0},
                                                                decode::RandomHorizontalFlip{}},
                                                   .members = {picture, mask}})
                          .batch({.size = 12})
                          .build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  const auto pixels = batch.field("image").as<std::uint8_t>();
  const auto labels = batch.field("mask").as<std::uint8_t>();
  EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), labels.begin(), labels.end()));
  EXPECT_NE(pixels[0], pixels[192]);
}

/// A field of `shard`'s pictures, cropped at random in a pipeline with `fields`.
std::vector<std::uint8_t> cropped(const std::string& shard, const std::vector<std::string>& fields,
                                  const std::string& field) {
  Pipeline::Builder views = Pipeline::Builder().shards(shard).shuffle({.seed = 5});
  for (const std::string& name : fields)
    views.field(ImageField{.name = name,
                           .transforms = {decode::RandomCrop{{4, 4}, 0}},
                           .dtype = decode::DType::kUInt8});
  Pipeline pipeline = views.batch({.size = 12}).build();
  Batch batch;
  EXPECT_TRUE(pipeline.next(batch));
  const auto pixels = batch.field(field).as<std::uint8_t>();
  return {pixels.begin(), pixels.end()};
}

TEST(PipelineOverShards, ViewsOfOneMemberAreIndependentAndKeyedByTheirNames) {
  TempDir folder;
  TarBuilder tar;
  for (int i = 0; i < 12; ++i) tar.file(std::to_string(i) + ".ppm", ppm(64, 64, 7 * i));
  const std::string path = folder / "views.tar";
  testing::write_file(path, tar.end().bytes());
  const auto alone = cropped(path, {"left"}, "left");
  EXPECT_EQ(cropped(path, {"right"}, "right"), alone) << "the first draws by the sample alone";
  EXPECT_EQ(cropped(path, {"left", "right"}, "left"), alone);
  const auto right = cropped(path, {"left", "right"}, "right");
  EXPECT_NE(right, alone);
  EXPECT_EQ(cropped(path, {"left", "other", "right"}, "right"), right);
  EXPECT_NE(cropped(path, {"left", "other", "right"}, "other"), right);
}

/// Views by their numbers of a pipeline, by their names.
std::map<std::string, std::vector<std::uint8_t>> numbered(
    const std::string& shard, const std::map<std::string, std::int64_t>& views,
    std::uint64_t* decoded = nullptr) {
  Pipeline::Builder builder = Pipeline::Builder().shards(shard).shuffle({.seed = 5});
  for (const auto& [name, view] : views) {
    const int size = view < 2 ? 8 : 4;
    builder.field(ImageField{.name = name,
                             .transforms = {decode::RandomCrop{{size, size}, 0}},
                             .dtype = decode::DType::kUInt8,
                             .view = view});
    if (view == 1) builder.field(LabelField{.name = "between", .missing = 0});
  }
  Pipeline pipeline = builder.batch({.size = 12}).build();
  std::map<std::string, std::vector<std::uint8_t>> pixels;
  Batch batch;
  EXPECT_TRUE(pipeline.next(batch));
  for (const auto& [name, view] : views) {
    const auto field = batch.field(name).as<std::uint8_t>();
    pixels[name].assign(field.begin(), field.end());
  }
  if (decoded != nullptr) *decoded = pipeline.statistics().pictures.decoded;
  return pixels;
}

TEST(PipelineOverShards, NumberedViewsShareOneDecodeAndAreKeyedByTheirNumbers) {
  TempDir folder;
  TarBuilder tar;
  for (int i = 0; i < 12; ++i) {
    const auto picture = decode::decode_image(io::Bytes::copy_of(ppm(64, 64, 7 * i)));
    tar.file(std::to_string(i) + ".png", std::string(decode::encode_png(picture).text()));
  }
  const std::string path = folder / "crops.tar";
  testing::write_file(path, tar.end().bytes());
  std::uint64_t decoded = 0;
  const auto all = numbered(path, {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}}, &decoded);
  EXPECT_EQ(decoded, 12U) << "each picture once";
  EXPECT_EQ(numbered(path, {{"b", 0}}).at("b"), all.at("a"));
  EXPECT_EQ(numbered(path, {{"x", 3}, {"y", 1}}), (std::map<std::string, std::vector<std::uint8_t>>{
                                                      {"x", all.at("d")}, {"y", all.at("b")}}));
  EXPECT_NE(all.at("c"), all.at("d"));
  EXPECT_THROW(numbered(path, {{"a", -1}}), Error);
}

/// Bytes of this process that are in memory now.
std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

TEST(PipelineOverShards, StaysWithinItsBudget) {
  TempDir folder;
  std::vector<std::string> urls;
  for (int s = 0; s < 4; ++s) {
    TarBuilder tar;
    for (int i = 0; i < 60; ++i) tar.file(std::to_string(i) + ".ppm", ppm(200, 200, i));
    urls.push_back(folder / ("big-" + std::to_string(s) + ".tar"));
    testing::write_file(urls.back(), tar.end().bytes());
  }
  constexpr std::size_t kBudget = 40 << 20;
  const std::size_t before = resident_bytes();
  Pipeline pipeline = Pipeline::Builder()
                          .shards(urls)
                          .split({.workers = 4})
                          .shuffle({.buffer_samples = 100, .buffer_bytes = 2 << 20})
                          .field(ImageField{.transforms = {decode::Resize{{100, 100}}},
                                            .dtype = decode::DType::kFloat32})
                          .batch({.size = 16})
                          .epochs({.count = 4})
                          .resources({.threads = 2, .prefetch = 50, .memory_budget_bytes = kBudget})
                          .build();
  std::size_t most = 0;
  while (!pipeline.finished()) {
    for (Batch batch; pipeline.next(batch);) most = std::max(most, resident_bytes());
  }
  EXPECT_LE(pipeline.memory_bound_bytes(), kBudget);
  EXPECT_LE(pipeline.statistics().peak_held_bytes, kBudget);
  EXPECT_GT(most, before);
  // Thread stacks and the allocator's own caches come on top.
  if (!testing::kSanitized) {
    EXPECT_LE(most, before + kBudget + (24 << 20));
  }
}

TEST(PipelineShards, ContinuesWithoutReadingMoreThanItsBuffers) {
  const Shards shards(4, 40);
  for (const int given : {1, 3, 6, 9, 14}) {
    Pipeline whole = builder(shards).build();
    Batch batch;
    for (int i = 0; i < given; ++i) ASSERT_TRUE(whole.next(batch));
    EXPECT_EQ(whole.statistics().restored_samples, 0U);
    const Position saved = Position::from_json(batch.position->to_json());
    std::uint64_t buffered = 0;
    for (const Position::Stream& stream : saved.streams) {
      EXPECT_EQ(stream.skip, 0U);
      buffered += stream.start ? stream.start->buffered.size() : 0;
    }
    Pipeline resumed = builder(shards).resume(*batch.position).build();
    Batch next;
    ASSERT_TRUE(whole.next(batch));
    ASSERT_TRUE(resumed.next(next));
    EXPECT_EQ(next.keys, batch.keys);
    const Statistics statistics = resumed.statistics();
    EXPECT_EQ(statistics.samples_to_restore, buffered) << given;
    EXPECT_EQ(statistics.restored_samples, buffered) << given;
    EXPECT_GT(statistics.restored_bytes, buffered * 8 * 8 * 3);
    EXPECT_GT(statistics.restore_time.count(), 0);
  }
}

}  // namespace
}  // namespace millrace::pipeline
