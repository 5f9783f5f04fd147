// MixUp and CutMix: pictures of one level each, so that a mixed one shows its shares.
#include "pipeline/mixup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "decode/transforms/normalize.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/resize.h"
#include "pipeline/pipeline.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

namespace millrace {
namespace mixup_test {

using pipeline::Batch;
using pipeline::ImageField;
using pipeline::LabelField;
using pipeline::MixUpOptions;
using pipeline::Pipeline;
using testing::TarBuilder;
using testing::TempDir;

constexpr int kSide = 12;

/// Sample i is a grey picture of level i, and has the label i.
std::vector<std::string> levels(const TempDir& folder, int shards, int samples) {
  std::vector<std::string> urls;
  for (int shard = 0; shard < shards; ++shard) {
    TarBuilder tar;
    for (int i = shard * samples; i < (shard + 1) * samples; ++i) {
      const std::string key = std::to_string(i);
      tar.file(key + ".cls", key)
          .file(key + ".pgm", "P5 12 12 255\n" + std::string(kSide * kSide, static_cast<char>(i)));
    }
    urls.push_back(folder / ("x-" + std::to_string(shard) + ".tar"));
    testing::write_file(urls.back(), tar.end().bytes());
  }
  return urls;
}

struct How {
  MixUpOptions mixup = {};
  std::int64_t batch = 8;
  decode::Layout layout = decode::Layout::kHWC;
  decode::DType dtype = decode::DType::kFloat32;
  int threads = 2;
  Topology topology = {};
};

Pipeline::Builder builder(const std::vector<std::string>& urls, const How& how) {
  return Pipeline::Builder()
      .shards(urls)
      .split({.topology = how.topology, .streams = 4})
      .shuffle({.shards = true, .buffer_samples = 20, .seed = 3})
      // Levels from 0 to 255, not to 1.
      .field(ImageField{.transforms = {decode::Resize{{kSide, kSide}},
                                       decode::Normalize{{0.0F}, {1.0F / 255.0F}}},
                        .channels = 3,
                        .dtype = how.dtype,
                        .layout = how.layout})
      .field(LabelField{})
      .mixup(how.mixup)
      .batch({.size = how.batch})
      .epochs({.count = 2})
      .resources({.threads = how.threads});
}

/// All that a run's batches hold.
std::vector<std::string> all_bytes(Pipeline pipeline) {
  std::vector<std::string> all;
  do {
    for (Batch batch; pipeline.next(batch);)
      for (const auto& field : batch.fields)
        all.emplace_back(reinterpret_cast<const char*>(field.data.data()), field.data.size());
  } while (!pipeline.finished());
  return all;
}

/// A valid slot of a mixed batch.
struct Mixed {
  std::vector<float> levels;  ///< of one channel
  std::int64_t label = 0;
  std::int64_t other = 0;
  float share = 0;
};

template <typename Check>
void for_each_mixed(Pipeline pipeline, decode::Layout layout, const Check& check) {
  do {
    for (Batch batch; pipeline.next(batch);) {
      const auto values = batch.field("image").as<float>();
      for (std::size_t slot = 0; slot < static_cast<std::size_t>(batch.size); ++slot) {
        if (batch.valid[slot] == 0) continue;
        Mixed mixed = {.levels = {},
                       .label = batch.field("label").as<std::int64_t>()[slot],
                       .other = batch.field("label.other").as<std::int64_t>()[slot],
                       .share = batch.field("label.share").as<float>()[slot]};
        constexpr std::size_t kPixels = kSide * kSide;
        for (std::size_t i = 0; i < kPixels; ++i) {
          const std::size_t each = layout == decode::Layout::kHWC ? 3 * i : i;
          mixed.levels.push_back(values[slot * 3 * kPixels + each]);
        }
        check(mixed, batch);
      }
    }
  } while (!pipeline.finished());
}

TEST(MixUp, MixesEachPictureWithItsPartnerByTheShareOfItsLabel) {
  const TempDir folder;
  const auto urls = levels(folder, 4, 21);
  std::set<float> shares;
  int alone = 0;
  for_each_mixed(builder(urls, {.mixup = {.mixup = 0.4}}).build(), decode::Layout::kHWC,
                 [&](const Mixed& mixed, const Batch& batch) {
                   const float expected = mixed.share * static_cast<float>(mixed.label) +
                                          (1 - mixed.share) * static_cast<float>(mixed.other);
                   for (const float level : mixed.levels) ASSERT_NEAR(level, expected, 1e-3);
                   shares.insert(mixed.share);
                   alone += mixed.label == mixed.other && batch.num_valid > 1 ? 1 : 0;
                 });
  EXPECT_GT(shares.size(), 15U) << "a share for each step";
  EXPECT_EQ(alone, 0);
}

TEST(MixUp, CutMixShowsAsMuchOfThePartnerAsItsLabelHas) {
  const TempDir folder;
  const auto urls = levels(folder, 4, 21);
  for (const auto layout : {decode::Layout::kHWC, decode::Layout::kCHW}) {
    int cut = 0;
    for_each_mixed(
        builder(urls, {.mixup = {.cutmix = 1}, .layout = layout}).build(), layout,
        [&](const Mixed& mixed, const Batch& /*batch*/) {
          float own = 0;
          for (const float level : mixed.levels) {
            const bool is_own = std::abs(level - static_cast<float>(mixed.label)) < 1e-3F;
            ASSERT_TRUE(is_own || std::abs(level - static_cast<float>(mixed.other)) < 1e-3F);
            own += is_own ? 1 : 0;
          }
          ASSERT_NEAR(own / (kSide * kSide), mixed.share, 1e-5);
          cut += mixed.share < 1 ? 1 : 0;
        });
    EXPECT_GT(cut, 80);
  }
}

TEST(MixUp, DoesEitherWhereBothAreAskedFor) {
  const TempDir folder;
  const auto urls = levels(folder, 4, 60);
  int cut = 0;
  int blended = 0;
  for_each_mixed(builder(urls, {.mixup = {.mixup = 1, .cutmix = 1}}).build(), decode::Layout::kHWC,
                 [&](const Mixed& mixed, const Batch& /*batch*/) {
                   const bool is_flat = mixed.levels.front() == mixed.levels[77] &&
                                        mixed.levels.front() == mixed.levels.back();
                   const bool is_plain =
                       std::abs(mixed.levels.front() - static_cast<float>(mixed.label)) < 1e-3F ||
                       std::abs(mixed.levels.front() - static_cast<float>(mixed.other)) < 1e-3F;
                   (is_flat && !is_plain ? blended : cut) += 1;
                 });
  EXPECT_GT(cut, 100);
  EXPECT_GT(blended, 100);
}

TEST(MixUp, CopiesOfASampleAreNotMixedWithEachOther) {
  const TempDir folder;
  const auto urls = levels(folder, 4, 24);
  for (const int copies : {2, 4}) {
    int checked = 0;
    for_each_mixed(
        Pipeline(builder(urls, {.mixup = {.mixup = 1}})
                     .shuffle({.copies = copies, .seed = 3, .order = wds::Order::kPermutation})
                     .build()),
        decode::Layout::kHWC, [&](const Mixed& mixed, const Batch& /*batch*/) {
          const float expected = mixed.share * static_cast<float>(mixed.label) +
                                 (1 - mixed.share) * static_cast<float>(mixed.other);
          for (const float level : mixed.levels) ASSERT_NEAR(level, expected, 1e-3);
          EXPECT_NE(mixed.label, mixed.other);
          ++checked;
        });
    EXPECT_GT(checked, 100);
  }
}

TEST(MixUp, MaskedSlotsAreNeverMixedIn) {
  const TempDir folder;
  const auto urls = levels(folder, 1, 11);
  Pipeline pipeline = Pipeline(
      builder(urls, {.mixup = {.mixup = 1}}).split({.streams = 1}).epochs({.count = 30}).build());
  int checked = 0;
  do {
    for (Batch batch; pipeline.next(batch);) {
      if (batch.num_valid != 3) continue;
      std::set<std::int64_t> there;
      const auto labels = batch.field("label").as<std::int64_t>();
      const auto others = batch.field("label.other").as<std::int64_t>();
      for (std::size_t slot = 0; slot < 8; ++slot)
        if (batch.valid[slot] != 0) there.insert(labels[slot]);
      ASSERT_EQ(there.size(), 3U);
      for (std::size_t slot = 0; slot < 8; ++slot) {
        EXPECT_TRUE(there.contains(others[slot])) << "a masked slot repeats a valid one";
        ++checked;
      }
    }
  } while (!pipeline.finished());
  EXPECT_EQ(checked, 30 * 8);
}

TEST(MixUp, GivesTheSameBitsAtAnyNumberOfThreadsAndProcesses) {
  const TempDir folder;
  const auto urls = levels(folder, 4, 24);
  for (const auto dtype : {decode::DType::kFloat32, decode::DType::kBFloat16}) {
    const MixUpOptions mixup = {.mixup = 0.2, .cutmix = 1};
    const auto alone = all_bytes(
        builder(urls, {.mixup = mixup, .dtype = dtype, .topology = {.devices = 2}}).build());
    for (const int threads : {1, 4})
      EXPECT_EQ(all_bytes(builder(urls, {.mixup = mixup,
                                         .dtype = dtype,
                                         .threads = threads,
                                         .topology = {.devices = 2}})
                              .build()),
                alone);
    std::vector<std::vector<std::string>> halves;
    for (int process = 0; process < 2; ++process)
      halves.push_back(all_bytes(builder(urls, {.mixup = mixup,
                                                .dtype = dtype,
                                                .topology = {.process = process, .processes = 2}})
                                     .build()));
    std::vector<std::string> together;
    constexpr std::size_t kFields = 4;
    for (std::size_t at = 0; at < halves[0].size(); at += kFields)
      for (const auto& half : halves)
        together.insert(together.end(), half.begin() + static_cast<std::ptrdiff_t>(at),
                        half.begin() + static_cast<std::ptrdiff_t>(at + kFields));
    EXPECT_EQ(together, alone) << "two devices of one process, or of two";
  }
}

TEST(MixUp, ChangesNothingIfItIsOffOrNotDrawn) {
  const TempDir folder;
  const auto urls = levels(folder, 4, 24);
  Pipeline off = builder(urls, {}).build();
  EXPECT_EQ(off.fields().size(), 2U);
  for_each_mixed(builder(urls, {.mixup = {.mixup = 1, .probability = 0}}).build(),
                 decode::Layout::kHWC, [&](const Mixed& mixed, const Batch& /*batch*/) {
                   EXPECT_EQ(mixed.share, 1);
                   EXPECT_NEAR(mixed.levels.front(), static_cast<float>(mixed.label), 1e-3);
                 });
}

TEST(MixUp, RefusesWhatCannotBeMixed) {
  const TempDir folder;
  const auto urls = levels(folder, 4, 4);
  const auto refusal = [&](const MixUpOptions& mixup) -> std::string {
    try {
      static_cast<void>(builder(urls, {.mixup = mixup}).build());
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.message();
    }
  };
  EXPECT_EQ(refusal({.mixup = -1}), "mixup and cutmix must be at least 0");
  EXPECT_EQ(refusal({.mixup = 1, .probability = 2}), "the probability of mixing is 0 to 1");
  EXPECT_EQ(refusal({.mixup = 1, .image = "picture"}),
            "MixUp and CutMix: there is no field picture");
  EXPECT_EQ(
      refusal({.cutmix = 1, .image = "label"}),
      "MixUp and CutMix: field label is not a picture of float32, bfloat16, float16 or uint8");
  EXPECT_EQ(refusal({.cutmix = 1, .label = "image"}),
            "MixUp and CutMix: field image is not a label for each sample");
}

}  // namespace mixup_test
}  // namespace millrace
