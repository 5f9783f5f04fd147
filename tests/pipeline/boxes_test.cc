// Boxes that follow their picture, and texts of a fixed length.
#include "decode/boxes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/transforms/center_crop.h"
#include "decode/transforms/rand_augment.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "io/base/error.h"
#include "pipeline/fake_data.h"
#include "pipeline/pipeline.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

namespace millrace::pipeline {
namespace {

using decode::Bounds;
using decode::Geometry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TarBuilder;
using testing::TempDir;

std::vector<double> numbers_of(const decode::SeenBounds& seen) {
  return {seen.bounds.left, seen.bounds.top, seen.bounds.right, seen.bounds.bottom, seen.share};
}

TEST(Boxes, AreCutWhereEachCropEndsAndMirroredLast) {
  Geometry geometry(100, 60);
  geometry.crop({10, 0, 50, 60});
  geometry.resize(100, 120);
  geometry.flip();
  geometry.crop({-20, 10, 140, 100});  // black on both sides
  const Bounds box = {0, 10, 40, 30};  // ten of forty columns are cropped away
  EXPECT_THAT(numbers_of(decode::seen_through(geometry, box)), ElementsAre(60, 10, 120, 50, 0.75));
  EXPECT_EQ(decode::seen_through(geometry, {0, 0, 10, 60}).share, 0) << "what is cropped away";
}

TEST(Boxes, BehindTheHorizonOfAPerspectiveAreGone) {
  Geometry geometry(100, 100);
  geometry.sample({.where = {{1, 0, 0, 0, 1, 0, 0.02, 0, 1}}}, 100, 100);
  EXPECT_GT(decode::seen_through(geometry, {0, 0, 20, 20}).share, 0);
  EXPECT_EQ(decode::seen_through(geometry, {60, 0, 80, 20}).share, 0);
  Geometry flat(100, 100);
  flat.sample({.where = {{0, 0, 5, 0, 0, 5, 0, 0, 1}}}, 100, 100);  // one point of the picture
  EXPECT_EQ(decode::seen_through(flat, {0, 0, 100, 100}).share, 0);
}

std::string black_ppm(int height, int width) {
  return "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n" +
         std::string(static_cast<std::size_t>(3 * height * width), '\0');
}

/// Pictures of 40 x 60, each with its boxes.
std::string boxed_shard(const TempDir& folder, int count) {
  TarBuilder tar;
  for (int i = 0; i < count; ++i) {
    const std::string key = std::to_string(100 + i);
    tar.file(key + ".json", R"({"boxes":[[)" + std::to_string(i % 30) +
                                R"(,5,20,20],[30,10,25,25]],"labels":[1,0]})")
        .file(key + ".ppm", black_ppm(40, 60));
  }
  testing::write_file(folder / "boxed.tar", tar.end().bytes());
  return folder / "boxed.tar";
}

Pipeline::Builder boxed_pipeline(const std::string& shard, std::vector<decode::Transform> of) {
  return Pipeline::Builder()
      .shards(shard)
      .field(BoxesField{.most = 3})
      .field(ImageField{.transforms = std::move(of), .dtype = decode::DType::kUInt8})
      .batch({.size = 8});
}

TEST(BoxesField, AreTheSameAtAnyNumberOfThreads) {
  const TempDir folder;
  const std::string shard = boxed_shard(folder, 32);
  std::vector<float> all[2];
  for (const int threads : {1, 4}) {
    Pipeline pipeline =
        boxed_pipeline(shard, {decode::RandomCrop{{30, 30}, 4}, decode::RandomHorizontalFlip{}})
            .shuffle({.buffer_samples = 9, .seed = 1})
            .resources({.threads = threads})
            .build();
    for (Batch batch; pipeline.next(batch);) {
      const auto boxes = batch.field("boxes").as<float>();
      all[threads > 1].insert(all[threads > 1].end(), boxes.begin(), boxes.end());
      for (const std::int64_t count : batch.field("boxes.count").as<std::int64_t>())
        EXPECT_THAT(count, ::testing::AllOf(::testing::Ge(0), ::testing::Le(2)));
    }
  }
  EXPECT_EQ(all[0].size(), 32U * 3 * 4);
  EXPECT_EQ(all[0], all[1]);
}

std::string refusal_of_boxes(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing thrown";
}

TEST(BoxesField, WhatTheyCannotFollowIsRefused) {
  const TempDir folder;
  const std::string shard = boxed_shard(folder, 1);
  EXPECT_THAT(refusal_of_boxes([&] {
                boxed_pipeline(shard, {decode::CenterCrop{{8, 8}}, decode::RandAugment{}}).build();
              }),
              HasSubstr("boxes cannot follow randaugment"));
  EXPECT_THAT(refusal_of_boxes([&] {
                Pipeline::Builder().shards(shard).field(BoxesField{}).batch({.size = 1}).build();
              }),
              HasSubstr("there is no field image of pictures"));
}

TEST(BoxesField, FakeOnesHaveTheirShapes) {
  PipelineOptions options = boxed_pipeline("x.tar", {decode::CenterCrop{{8, 8}}}).options();
  options.fields.emplace_back(TextField{.name = "caption", .length = 9});
  options.shards = {};
  Pipeline pipeline(with_fake_data(options, {.samples = 8, .classes = 2}));
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_THAT(batch.field("boxes").spec.shape, ElementsAre(8, 3, 4));
  EXPECT_THAT(batch.field("boxes.label").spec.shape, ElementsAre(8, 3));
  EXPECT_THAT(batch.field("caption.mask").spec.shape, ElementsAre(8, 9));
}

TEST(TextField, IsTokensOfAFunctionCutAndPadded) {
  const TempDir folder;
  testing::write_file(
      folder / "t.tar",
      TarBuilder().file("a.txt", "one three seventeen").file("b.txt", "ab c").end().bytes());
  std::atomic<int> calls{0};
  const auto lengths_of_words = [&calls](std::string_view text) {
    ++calls;
    std::vector<std::int64_t> lengths = {0};
    for (const char character : text) {
      if (character == ' ')
        lengths.push_back(0);
      else
        ++lengths.back();
    }
    return lengths;
  };
  Pipeline pipeline =
      Pipeline::Builder()
          .shards(folder / "t.tar")
          .field(TextField{.length = 2, .tokenize = lengths_of_words})
          .field(
              TextField{.name = "wide", .length = 3, .padding = -100, .tokenize = lengths_of_words})
          .batch({.size = 2})
          .build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_THAT(batch.field("text").as<std::int64_t>(), ElementsAre(3, 5, 2, 1));
  EXPECT_THAT(batch.field("wide").as<std::int64_t>(), ElementsAre(3, 5, 9, 2, 1, -100));
  EXPECT_THAT(batch.field("wide.mask").as<std::uint8_t>(), ElementsAre(1, 1, 1, 1, 1, 0));
  EXPECT_EQ(calls, 4);
}

/// Of words of a and b: "ab" is one token, and 9 is behind each text.
std::shared_ptr<const decode::Tokenizer> small_tokenizer() {
  return std::make_shared<decode::Tokenizer>(io::Bytes::copy_of(std::string_view(R"({
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "post_processor": {"type": "TemplateProcessing", "special_tokens": {"E": {"ids": [9]}},
          "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "E"}}]},
        "model": {"type": "BPE", "vocab": {"a": 1, "b": 2, "ab": 3}, "merges": ["a b"]}})")),
                                             "small/tokenizer.json");
}

TEST(TextField, IsTokensOfATokenizerWhoseEndStays) {
  const TempDir folder;
  testing::write_file(
      folder / "t.tar",
      TarBuilder().file("x.txt", "aab").file("y.txt", "abab ba").file("z.txt", "").end().bytes());
  const TextField text = {.length = 3, .padding = -1, .tokenizer = small_tokenizer()};
  Pipeline pipeline =
      Pipeline::Builder().shards(folder / "t.tar").field(text).batch({.size = 3}).build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_THAT(batch.field("text").as<std::int64_t>(), ElementsAre(1, 3, 9, 3, 3, 9, 9, -1, -1));
  EXPECT_THAT(batch.field("text.mask").as<std::uint8_t>(), ElementsAre(1, 1, 1, 1, 1, 1, 1, 0, 0));

  const auto refusal = [&](const TextField& field) {
    return refusal_of_boxes([&] {
      Pipeline::Builder().shards(folder / "t.tar").field(field).batch({.size = 1}).build();
    });
  };
  EXPECT_THAT(refusal({.length = 1, .tokenizer = small_tokenizer()}), HasSubstr("has no room"));
  EXPECT_THAT(refusal({.length = 3,
                       .tokenize = [](std::string_view) { return std::vector<std::int64_t>(); },
                       .tokenizer = small_tokenizer()}),
              HasSubstr("a function or of a tokenizer"));
}

TEST(TextField, ThatIsNotUtf8IsAFaultOfItsSample) {
  const TempDir folder;
  testing::write_file(folder / "t.tar", TarBuilder().file("a.txt", "\xff").end().bytes());
  Pipeline pipeline = Pipeline::Builder()
                          .shards(folder / "t.tar")
                          .field(TextField{.length = 2})
                          .batch({.size = 1})
                          .build();
  Batch batch;
  try {
    pipeline.next(batch);
    FAIL() << "not UTF-8";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_EQ(error.where().member, "a.txt");
  }
}

}  // namespace
}  // namespace millrace::pipeline
