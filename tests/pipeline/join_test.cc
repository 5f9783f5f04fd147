// Joined shards in a pipeline: the same batches however they are read, positions, faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/base/error.h"
#include "pipeline/data_identity.h"
#include "pipeline/pipeline.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

namespace millrace::pipeline {
namespace {

using ::testing::HasSubstr;
using testing::TarBuilder;
using testing::TempDir;

/// 4 shards of 20 labels, and beside them a caption for each, in the opposite order.
class Captioned {
 public:
  Captioned() {
    for (int shard = 0; shard < 4; ++shard) {
      TarBuilder labels;
      TarBuilder captions;
      for (int i = 0; i < 20; ++i) {
        labels.file(key(shard, i) + ".cls", std::to_string(i));
        captions.file(key(shard, 19 - i) + ".txt", "caption " + key(shard, 19 - i));
      }
      write("labels", shard, labels.end().bytes());
      write("captions", shard, captions.end().bytes());
    }
  }
  void write(const std::string& set, int shard, const std::string& bytes) const {
    testing::write_file(folder_ / (set + "-" + std::to_string(shard) + ".tar"), bytes);
  }

  Pipeline::Builder joined() const {
    return Pipeline::Builder()
        .shards(folder_ / "labels-{0..3}.tar")
        .join(folder_ / "captions-{0..3}.tar")
        .split({.streams = 4})
        .shuffle({.shards = true, .buffer_samples = 10, .seed = 5})
        .field(LabelField{})
        .field(RawField{.name = "caption", .text = true})
        .batch({.size = 8})
        .epochs({.count = 2});
  }

  static std::string key(int shard, int i) {
    return std::to_string(shard) + "-" + std::to_string(i);
  }
  const TempDir& folder() const { return folder_; }

 private:
  TempDir folder_;
};

/// "KEY caption KEY" for each sample.
std::vector<std::string> rows_of(Pipeline& pipeline) {
  std::vector<std::string> rows;
  while (!pipeline.finished()) {
    for (Batch batch; pipeline.next(batch);)
      for (std::int64_t i = 0; i < batch.size; ++i)
        if (batch.valid[static_cast<std::size_t>(i)])
          rows.push_back(batch.keys[static_cast<std::size_t>(i)] + " " +
                         std::string(batch.ragged.at(0).text(i)));
  }
  return rows;
}

TEST(PipelineJoin, GivesEachSampleItsCaptionInEveryOrder) {
  const Captioned set;
  for (const wds::Order order : {wds::Order::kMillrace, wds::Order::kPermutation}) {
    std::vector<std::string> first;
    for (const int threads : {1, 4}) {
      Pipeline pipeline = set.joined()
                              .shuffle({.shards = true, .seed = 5, .order = order})
                              .resources({.threads = threads})
                              .build();
      const auto rows = rows_of(pipeline);
      ASSERT_EQ(rows.size(), 160U);
      for (const std::string& row : rows) {
        const std::string key = row.substr(0, row.find(' '));
        EXPECT_EQ(row, key + " caption " + key);
      }
      if (first.empty()) first = rows;
      EXPECT_EQ(rows, first);
    }
  }
}

TEST(PipelineJoin, ContinuesAtEveryPosition) {
  const Captioned set;
  Pipeline whole = set.joined().build();
  const std::vector<std::string> rows = rows_of(whole);
  Pipeline counted = set.joined().build();
  std::size_t done = 0;
  for (Batch batch; counted.next(batch);) {
    done += static_cast<std::size_t>(batch.num_valid);
    Pipeline resumed = set.joined().resume(*batch.position).build();
    const std::vector<std::string> rest(rows.begin() + static_cast<std::ptrdiff_t>(done),
                                        rows.end());
    EXPECT_EQ(rows_of(resumed), rest) << done;
  }
}

TEST(PipelineJoin, ACheckpointKnowsTheJoinedShards) {
  const Captioned set;
  const Pipeline pipeline = set.joined().build();
  const DataIdentity saved = identify(pipeline.options());
  ASSERT_EQ(saved.shards.size(), 8U);
  EXPECT_EQ(saved.shards[7].name, "captions-3.tar");
  set.write("captions", 3, TarBuilder().file("3-0.txt", "another").end().bytes());
  EXPECT_THAT(content_difference(saved, identify(pipeline.options())), HasSubstr("captions-3.tar"));
}

TEST(PipelineJoin, APositionOfOtherJoinedContentsIsRefused) {
  const Captioned set;
  Pipeline pipeline = set.joined().build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  const Position saved = pipeline.position_to_save();
  static_cast<void>(set.joined().resume(saved).build());
  TarBuilder captions;
  for (int i = 0; i < 20; ++i) captions.file(Captioned::key(3, i) + ".txt", "another");
  set.write("captions", 3, captions.end().bytes());
  try {
    static_cast<void>(set.joined().resume(saved).build());
    ADD_FAILURE() << "it was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("other contents"));
  }
}

TEST(PipelineJoin, AFilterOfAJoinedFieldIsRefused) {
  const Captioned set;
  const auto refusal = [&](const std::string& where) -> std::string {
    try {
      static_cast<void>(
          set.joined().shuffle({.order = wds::Order::kPermutation, .where = where}).build());
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal("cls > 3"), "");
  EXPECT_THAT(refusal("txt == null"), HasSubstr("fields of joined shards come after the filter"));
}

TEST(PipelineJoin, ASampleWithoutItsCaptionIsAFaultUnlessItMayMiss) {
  const Captioned set;
  set.write("captions", 3, TarBuilder().file("3-0.txt", "another").end().bytes());
  Pipeline pipeline = set.joined().build();
  try {
    rows_of(pipeline);
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("txt"));
    EXPECT_THAT(error.where().key, HasSubstr("3-"));
  }
  Pipeline::Builder may_miss = set.joined();
  may_miss.options().fields.back() = RawField{.name = "caption", .missing = "none"};
  Pipeline other = may_miss.build();
  EXPECT_EQ(rows_of(other).size(), 160U);
}

TEST(PipelineJoin, AFaultInAFieldNamesItsOwnShard) {
  const Captioned set;
  TarBuilder captions;
  for (int i = 0; i < 20; ++i) captions.file(Captioned::key(2, i) + ".txt", i == 7 ? "\xff" : "t");
  set.write("captions", 2, captions.end().bytes());
  Pipeline pipeline = set.joined().build();
  try {
    rows_of(pipeline);
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.where().url, HasSubstr("captions-2.tar"));
    EXPECT_EQ(error.where().key, "2-7");
  }
}

}  // namespace
}  // namespace millrace::pipeline
