// A pipeline with a cache of decoded pictures gives the batches of one without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "decode/decoded_cache.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/resize.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"
#include "tests/support/small_png.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

namespace millrace::pipeline {
namespace {

using namespace std::chrono_literals;
using testing::describe_all;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t kEnough = 4 << 20;
constexpr int kSamples = 37;

class DecodedPicturesOf : public ::testing::Test {
 protected:
  DecodedPicturesOf() {
    testing::TarBuilder tar;
    for (int i = 0; i < kSamples; ++i)
      tar.file(std::to_string(i) + ".png", testing::small_png({12, 10}, i));
    testing::write_file(url_, tar.end().bytes());
  }

  PipelineOptions options(std::shared_ptr<decode::DecodedCache> cache = nullptr) const {
    PipelineOptions options;
    options.shards = {url_};
    options.split.streams = 2;
    options.shuffle = {.shards = true, .buffer_samples = 9, .seed = 5};
    options.fields = {
        ImageField{.transforms = {decode::RandomCrop{{8, 8}, 2}, decode::RandomHorizontalFlip{},
                                  decode::Normalize{}}},
        PairedImagesField{
            .geometry = {decode::Resize{{6, 6}}},
            .members = {{.name = "left", .channels = 1}, {.name = "right", .channels = 3}}}};
    options.batch.size = 5;
    options.epochs.count = 3;
    options.resources.threads = 2;
    options.resources.decoded = std::move(cache);
    return options;
  }
  static std::shared_ptr<decode::DecodedCache> cache_of(std::size_t bytes) {
    return std::make_shared<decode::DecodedCache>(decode::DecodedCacheOptions{.bytes = bytes});
  }

 private:
  testing::TempDir folder_;
  std::string url_ = folder_ / "a.tar";
};

TEST_F(DecodedPicturesOf, AllEpochsAreTheSameBatches) {
  Pipeline plain(options());
  const auto expected = describe_all(plain);
  EXPECT_EQ(plain.statistics().pictures.found, 0U);
  EXPECT_EQ(plain.statistics().pictures.decoded, 3U * 3 * kSamples) << "three fields, three epochs";
  for (const std::size_t bytes : {kEnough, std::size_t{6000}}) {
    const auto cache = cache_of(bytes);
    Pipeline cached(options(cache));
    EXPECT_EQ(describe_all(cached), expected) << bytes;
    const DecodedPictures pictures = cached.statistics().pictures;
    EXPECT_EQ(pictures.decoded + pictures.found, 3U * 3 * kSamples);
    EXPECT_EQ(pictures.kept, cache->size());
    EXPECT_GT(pictures.kept, 0U);
    EXPECT_LE(pictures.kept_bytes, bytes);
  }
}

TEST_F(DecodedPicturesOf, SeveralPipelinesShareIt) {
  const auto cache = cache_of(kEnough);
  Pipeline first(options(cache));
  const auto expected = describe_all(first);
  Pipeline second(options(cache));
  EXPECT_EQ(describe_all(second), expected);
  EXPECT_EQ(second.statistics().pictures.decoded, 0U);
  EXPECT_EQ(cache->size(), 2U * kSamples) << "in one and in three channels";
}

TEST_F(DecodedPicturesOf, AResumedRunGoesOnWithTheSameBits) {
  testing::expect_same_after_any_resume(options(cache_of(kEnough)));
}

TEST_F(DecodedPicturesOf, TheBoundAndTheBudgetCountThem) {
  const std::size_t before = Pipeline(options()).memory_bound_bytes();
  EXPECT_EQ(Pipeline(options(cache_of(kEnough))).memory_bound_bytes(), before + kEnough);
  PipelineOptions small = options(cache_of(kEnough));
  small.resources.memory_budget_bytes = kEnough;
  try {
    const Pipeline pipeline(small);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("and 4194304 bytes of decoded pictures"));
  }
}

TEST_F(DecodedPicturesOf, TheirSizeIsEstimatedBeforeThereIsACache) {
  Pipeline pipeline(options());
  describe_all(pipeline);
  const auto pictures = pipeline.statistics().pictures;
  const std::uint64_t pixels = std::uint64_t{kSamples} * 12 * 10 * (3 + 1 + 3);
  EXPECT_EQ(pictures.set_bytes, pixels + 3 * kSamples * decode::DecodedCache::kMostBeside);
}

Statistics decoding(double share) {
  Statistics statistics;
  statistics.elapsed = 10s;
  statistics.consumer_wait = 6s;
  statistics.stages = {{.name = "read", .busy = 1s, .waiting = 9s},
                       {.name = "decode", .busy = 10s, .waiting = 0s}};
  statistics.pictures = {
      .decoded = 1000,
      .decoding = std::chrono::duration_cast<std::chrono::nanoseconds>(share * 10s),
      .set_bytes = 12'300'000,
      .is_repeated = true};
  return statistics;
}

TEST(AboutPictures, SaysWhereACacheWouldPay) {
  EXPECT_THAT(decoding(0.83).about_pictures(),
              HasSubstr("decoding pictures is 83 % of that stage's work: a cache of 12.3 MB "
                        "(cache-decoded) would hold all of them"));
  EXPECT_THAT(decoding(0.83).to_text(), HasSubstr("cache-decoded"));
  EXPECT_THAT(decoding(0.1).about_pictures(), IsEmpty()) << "decoding is not what takes the time";
  Statistics once = decoding(0.83);
  once.pictures.is_repeated = false;
  EXPECT_THAT(once.about_pictures(), IsEmpty());
  Statistics large = decoding(0.83);
  large.pictures.set_bytes = std::uint64_t{1} << 60;
  EXPECT_THAT(large.about_pictures(), IsEmpty()) << "more than this machine's memory";
  Statistics fast = decoding(0.83);
  fast.consumer_wait = 0s;
  EXPECT_THAT(fast.about_pictures(), IsEmpty()) << "nobody waits for it";
}

TEST(AboutPictures, SaysWhatTheCacheHolds) {
  Statistics statistics = decoding(0.83);
  statistics.pictures.found = 3000;
  statistics.pictures.kept = 900;
  statistics.pictures.kept_bytes = 11'000'000;
  statistics.pictures.cache_bytes = 12'000'000;
  EXPECT_EQ(statistics.about_pictures(),
            "decoded pictures: 900 kept in 11 MB of 12 MB; 75.0 % of those needed were there; all "
            "would take about 12.3 MB");
}

}  // namespace
}  // namespace millrace::pipeline
