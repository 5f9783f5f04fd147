// Fields beside pictures: bytes and texts of any length, JSON by path, values for what is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "decode/transforms/center_crop.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/resize.h"
#include "io/base/error.h"
#include "pipeline/pipeline.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using testing::TarBuilder;
using testing::TempDir;

/// A shard in a folder of its own.
class Shard {
 public:
  explicit Shard(const std::function<void(TarBuilder&)>& fill) {
    TarBuilder tar;
    fill(tar);
    testing::write_file(path(), tar.end().bytes());
  }
  std::string path() const { return folder_ / "x.tar"; }

 private:
  TempDir folder_;
};

std::string caption(int i) {
  return "no. " + std::to_string(i) + std::string(static_cast<std::size_t>(i % 7), '!');
}

Shard captions(int count) {
  return Shard([&](TarBuilder& tar) {
    for (int i = 0; i < count; ++i) {
      const std::string key = std::to_string(i);
      const std::string label = std::to_string(i);
      tar.file(key + ".json", R"({"label":)" + label + R"(,"by":{"name":"n)" + label + "\"}}")
          .file(key + ".txt", caption(i));
    }
  });
}

Pipeline::Builder over(const Shard& shard) {
  return Pipeline::Builder().shards(shard.path()).batch({.size = 4});
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing thrown";
}

TEST(RawField, HasEachSamplesBytesAtAnyNumberOfThreads) {
  const Shard shard = captions(30);
  for (const int threads : {1, 4}) {
    Pipeline pipeline = over(shard)
                            .field(RawField{.name = "caption", .text = true})
                            .field(LabelField{.suffixes = "json", .json_key = "label"})
                            .shuffle({.buffer_samples = 9, .seed = 1})
                            .resources({.threads = threads})
                            .build();
    std::size_t seen = 0;
    for (Batch batch; pipeline.next(batch);) {
      const RaggedField& field = batch.raw("caption");
      ASSERT_EQ(field.offsets.size(), 5U);
      EXPECT_EQ(field.offsets.back(), static_cast<std::int64_t>(field.data.size()));
      for (std::int64_t i = 0; i < batch.size; ++i) {
        const auto slot = static_cast<std::size_t>(i);
        const auto label = batch.field("label").as<std::int64_t>()[slot];
        EXPECT_EQ(batch.keys[slot], batch.valid[slot] ? std::to_string(label) : "");
        EXPECT_EQ(field.text(i), batch.valid[slot] ? caption(static_cast<int>(label)) : "");
        seen += batch.valid[slot];
      }
    }
    EXPECT_EQ(seen, 30U);
  }
}

TEST(RawField, IsAllThatABatchNeedHave) {
  const Shard shard = captions(6);
  Pipeline pipeline = over(shard).field(RawField{}).build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_TRUE(batch.fields.empty());
  EXPECT_EQ(batch.raw("text").text(3), caption(3));
  EXPECT_THAT(message_of([&] { batch.raw("caption"); }), HasSubstr("no ragged field caption"));
}

TEST(RawField, TakesAValueOfTheJson) {
  const Shard shard = captions(4);
  Pipeline pipeline =
      over(shard).field(RawField{.suffixes = "json", .json_key = "/by/name"}).build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_EQ(batch.raw("text").text(2), "n2");
}

TEST(RawField, WhatIsTooLongOrNotTextIsAFaultOfItsSample) {
  const Shard shard([](TarBuilder& tar) {
    tar.file("a.txt", "short").file("b.txt", std::string(101, 'x')).file("c.txt", "\xff\xfe");
    tar.file("d.bin", "").file("e.txt", "last");
  });
  Pipeline pipeline = over(shard)
                          .field(RawField{.text = true, .max_bytes = 100})
                          .batch({.size = 5})
                          .faults({.on_fault = wds::OnFault::kSkip})
                          .build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < batch.size; ++i)
    if (batch.valid[static_cast<std::size_t>(i)]) texts.emplace_back(batch.raw("text").text(i));
  EXPECT_EQ(texts, (std::vector<std::string>{"short", "last"}));
  EXPECT_EQ(batch.raw("text").data.size(), 9U);

  Pipeline strict = over(shard).field(RawField{.max_bytes = 100}).build();
  try {
    strict.next(batch);
    FAIL() << "101 bytes are too many";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kExhausted);
    EXPECT_EQ(error.where().member, "b.txt");
    EXPECT_EQ(error.where().url, shard.path());
  }
}

TEST(RawField, CountsInTheMemoryBound) {
  const Shard shard = captions(4);
  const auto bound = [&](std::size_t most) {
    return over(shard).field(RawField{.max_bytes = most}).build().memory_bound_bytes();
  };
  EXPECT_GE(bound(2 << 20), bound(1 << 10) + 4 * ((2 << 20) - (1 << 10)));
}

TEST(Fields, TwoOfOneNameAreRefusedWhateverTheirKind) {
  const Shard shard = captions(4);
  EXPECT_THAT(message_of([&] {
                over(shard)
                    .field(RawField{.name = "label"})
                    .field(LabelField{.suffixes = "json", .json_key = "label"})
                    .build();
              }),
              HasSubstr("two fields are named label"));
}

TEST(MissingMembers, HaveTheFieldsValue) {
  const Shard shard([](TarBuilder& tar) { tar.file("a.cls", "3").file("b.other", "x"); });
  Pipeline pipeline =
      over(shard)
          .batch({.size = 2})
          .field(LabelField{.classes = 10, .missing = -1})
          .field(FloatsField{.size = 3, .missing = 0.5})
          .field(ArrayField{.output = {decode::DType::kUInt16, {2}}, .missing = 65535})
          .field(
              ImageField{.transforms = {decode::CenterCrop{{2, 2}}, decode::Normalize::imagenet()},
                         .missing = -2.5})
          .field(RawField{.missing = "none"})
          .build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_THAT(batch.field("label").as<std::int64_t>(), ::testing::ElementsAre(3, -1));
  EXPECT_THAT(batch.field("target").as<float>(), ::testing::Each(0.5F));
  EXPECT_THAT(batch.field("array").as<std::uint16_t>(), ::testing::Each(65535));
  EXPECT_THAT(batch.field("image").as<float>(), ::testing::Each(-2.5F));
  EXPECT_EQ(batch.raw("text").text(1), "none");
}

// What JSON does not hold, or holds as null, is missing; damage, and numbers in a text, are not.
TEST(MissingMembers, AreValuesThatJsonDoesNotHoldToo) {
  const Shard shard([](TarBuilder& tar) {
    tar.file("a.json", R"({"label": 3, "text": "here", "scores": [1, 2]})")
        .file("b.json", R"({"label": null, "text": null})")
        .file("c.json", "{}")
        .file("d.cls", "7");
  });
  Pipeline pipeline =
      over(shard)
          .batch({.size = 4})
          .field(LabelField{.suffixes = "cls;json", .json_key = "label", .missing = -1})
          .field(FloatsField{.size = 2, .json_key = "scores", .missing = 0.5})
          .field(RawField{.suffixes = "json", .json_key = "text", .missing = "none"})
          .field(TextField{.name = "bytes",
                           .suffixes = "json",
                           .json_key = "text",
                           .length = 4,
                           .missing = "none"})
          .build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_THAT(batch.field("label").as<std::int64_t>(), ::testing::ElementsAre(3, -1, -1, 7));
  EXPECT_THAT(batch.field("target").as<float>(),
              ::testing::ElementsAre(1, 2, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F));
  EXPECT_EQ(batch.raw("text").text(0), "here");
  EXPECT_EQ(batch.raw("text").text(1), "none");
  EXPECT_EQ(batch.raw("text").text(3), "none");
  const auto bytes = batch.field("bytes").as<std::uint8_t>();
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "herenonenonenone");
}

TEST(Fields, SuffixesAreThoseThatReadersGiveMembers) {
  const Shard shard([](TarBuilder& tar) { tar.file("a.CLS", "7").file("b.Index", "8"); });
  Pipeline pipeline = over(shard)
                          .batch({.size = 2})
                          .field(LabelField{.suffixes = "CLS;INDEX", .missing = -1})
                          .build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  EXPECT_THAT(batch.field("label").as<std::int64_t>(), ::testing::ElementsAre(7, 8));
  for (const char* wrong : {"cls,index", "cls; index"})
    EXPECT_THAT(message_of([&] { over(shard).field(LabelField{.suffixes = wrong}).build(); }),
                HasSubstr("suffixes are separated by ';' alone"));
}

TEST(MissingMembers, DamagedJsonAndANullWithoutAValueForItAreFaults) {
  const Shard damaged([](TarBuilder& tar) { tar.file("a.json", R"({"label": )"); });
  EXPECT_THAT(message_of([&] {
                Pipeline pipeline =
                    over(damaged)
                        .field(LabelField{.suffixes = "json", .json_key = "label", .missing = -1})
                        .build();
                Batch batch;
                pipeline.next(batch);
              }),
              HasSubstr("not JSON, or cut short"));
  const Shard null([](TarBuilder& tar) { tar.file("a.json", R"({"text": null})"); });
  EXPECT_THAT(message_of([&] {
                Pipeline pipeline =
                    over(null).field(RawField{.suffixes = "json", .json_key = "text"}).build();
                Batch batch;
                pipeline.next(batch);
              }),
              HasSubstr("JSON value at \"text\" is null"));
}

TEST(MissingMembers, ValuesThatTheTypeDoesNotHaveAreRefused) {
  const Shard shard = captions(4);
  const auto message = [&](const FieldSpec& field) {
    return message_of([&] { over(shard).field(field).build(); });
  };
  EXPECT_THAT(message(ArrayField{.output = {decode::DType::kUInt8, {2}}, .missing = 256}),
              HasSubstr("256 for what is missing does not fit into uint8"));
  EXPECT_THAT(message(ArrayField{.output = {decode::DType::kInt64, {2}}, .missing = 0.5}),
              HasSubstr("0.5 for what is missing does not fit into int64"));
  EXPECT_THAT(message(RawField{.max_bytes = 3, .missing = "none"}), HasSubstr("longer"));
  EXPECT_THAT(message(PairedImagesField{.geometry = {decode::Resize{{8, 8}}},
                                        .members = {{.missing = 0.0}}}),
              HasSubstr("paired images"));
}

TEST(MissingMembers, AreAFaultWithoutAValue) {
  const Shard shard([](TarBuilder& tar) { tar.file("a.other", "3"); });
  Pipeline pipeline = over(shard).field(LabelField{}).build();
  Batch batch;
  EXPECT_THAT(message_of([&] { pipeline.next(batch); }), HasSubstr("none of the members cls"));
}

}  // namespace
}  // namespace millrace::pipeline
