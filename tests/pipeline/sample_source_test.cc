#include "pipeline/sample_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "pipeline/data_identity.h"
#include "pipeline/fake_data.h"
#include "tests/pipeline/fake_sources.h"
#include "tests/pipeline/sample_source_conformance.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/shard_index.h"

namespace millrace::pipeline {
namespace {

using testing::fake_options;
using testing::FakeStreams;
using ::testing::HasSubstr;
using testing::TarBuilder;
using testing::TempDir;

/// A user's source: rows of a table, starting at another row in each epoch.
class Rows final : public SampleSource {
 public:
  explicit Rows(std::vector<std::string> rows) : rows_(std::move(rows)) {}

  std::string name() const override { return "rows"; }
  std::optional<std::int64_t> num_samples() const override {
    return static_cast<std::int64_t>(rows_.size());
  }
  std::unique_ptr<Stream> open(const Request& request) const override {
    return std::make_unique<RowStream>(*this, request);
  }

 private:
  class RowStream final : public Stream {
   public:
    RowStream(const Rows& table, const Request& request)
        : table_(table),
          request_(request),
          num_own_(stream_share(*table.num_samples(), request.num_streams, request.stream)),
          end_(num_own_ > 0 && request.max_samples > 0 ? request.max_samples : num_own_),
          next_(request.start ? request.start->samples_out : 0) {
      KeyedRng rng({.seed = request.seed, .epoch = request.epoch});
      first_ = rng.below(table.rows_.size());
    }

    bool next(wds::SampleBlock& block) override {
      for (; next_ < end_ && !block.full(); ++next_) block.add(row(next_ % num_own_));
      return !block.samples.empty();
    }
    wds::StreamPosition position() const override { return {.samples_out = next_}; }

   private:
    wds::Sample row(std::uint64_t own) const {
      const auto streams = static_cast<std::uint64_t>(request_.num_streams);
      const auto stream = static_cast<std::uint64_t>(request_.stream);
      const std::uint64_t row = (first_ + own * streams + stream) % table_.rows_.size();
      return {.key = std::to_string(row),
              .fields = {{.suffix = "txt", .data = io::Bytes::copy_of(table_.rows_[row])}}};
    }

    const Rows& table_;
    Request request_;
    std::uint64_t num_own_;
    std::uint64_t end_;
    std::uint64_t next_;
    std::uint64_t first_ = 0;
  };

  std::vector<std::string> rows_;
};

SourceData rows() {
  std::vector<std::string> rows;
  for (int i = 0; i < 75; ++i) rows.push_back(std::to_string(i * i));
  return {.options = {.source = std::make_shared<const Rows>(rows)}};
}

SourceData shards(bool indexed) {
  const auto folder = std::make_shared<TempDir>();
  SourceData data{
      .options = {.shuffle = {.shards = true, .buffer_samples = 20, .seed = 3}, .indexed = indexed},
      .owner = folder};
  for (int shard = 0; shard < 6; ++shard) {
    TarBuilder tar;
    for (int i = 0; i < 10 + 7 * shard; ++i)
      tar.file(std::to_string(shard) + "-" + std::to_string(i) + ".txt", std::to_string(i));
    data.options.shards.push_back(*folder / ("x-" + std::to_string(shard) + ".tar"));
    const std::string& url = data.options.shards.back();
    testing::write_file(url, tar.end().bytes());
    if (indexed) wds::write_index(wds::build_index(io::UrlOpener(), url), wds::index_url(url));
  }
  return data;
}

SourceData fake_data_of_150() {
  return {.options = with_fake_data({.batch = {.size = 8}}, {.samples = 150})};
}

SourceData numbered_streams() {
  const FakeStreams streams{.length = [](int stream, std::uint32_t epoch) {
    return 20 + 13 * stream + static_cast<std::int64_t>(epoch);
  }};
  return {.options = {.source = testing::fake_source(streams)}};
}

INSTANTIATE_TEST_SUITE_P(
    All, SampleSourceConformance,
    ::testing::Values(SourceCase{"Shards", [] { return shards(false); }},
                      SourceCase{"BalancedShards", [] { return shards(true); }},
                      SourceCase{"FakeData", fake_data_of_150}, SourceCase{"OnesOwn", rows},
                      SourceCase{"NumberedStreams", numbered_streams}),
    case_name);

std::string source_refusal(PipelineOptions options) {
  try {
    Pipeline pipeline(std::move(options));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.message();
  }
  return "accepted";
}

TEST(SampleSource, ExcludesShards) {
  PipelineOptions options = fake_options(2, 4);
  options.source = testing::fake_source();
  EXPECT_EQ(source_refusal(options), "accepted");
  const auto with = [&](auto change) {
    PipelineOptions changed = options;
    change(changed);
    return source_refusal(std::move(changed));
  };
  EXPECT_THAT(with([](auto& o) { o.shards = {"a.tar"}; }), HasSubstr("not both"));
  EXPECT_THAT(with([](auto& o) { o.shuffle.buffer_samples = 10; }), HasSubstr("order of its own"));
  EXPECT_THAT(with([](auto& o) { o.epochs = {.samples = 9, .resampled = true}; }),
              HasSubstr("resampling"));
  EXPECT_THAT(with([](auto& o) { o.indexed = true; }), HasSubstr("indexes"));
}

TEST(SampleSource, MayHaveFewerSamplesThanStreams) {
  for (PipelineOptions options : {rows().options, fake_data_of_150().options}) {
    options.fields = {content_field()};
    options.batch.size = 8;
    options.split.streams = 160;
    {
      Pipeline pipeline(options);
      std::int64_t valid = 0;
      for (Batch batch; pipeline.next(batch);) valid += batch.num_valid;
      EXPECT_EQ(valid, *options.source->num_samples());
      EXPECT_EQ(valid, samples_per_epoch(pipeline.options()));
    }
    options.epochs.samples = 320;
    EXPECT_THAT(source_refusal(options), HasSubstr("an epoch of 320 samples in 160 streams"));
  }
}

TEST(SampleSource, APositionOfAnotherSourceIsRefused) {
  PipelineOptions options = fake_options(2, 4);
  options.source = testing::fake_source();
  Pipeline pipeline(options);
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  options.resume = batch.position;
  EXPECT_EQ(source_refusal(options), "accepted");
  options.source = rows().options.source;
  EXPECT_THAT(source_refusal(options),
              HasSubstr("position does not fit this pipeline: source: numbered "
                        "samples saved, rows given"));
  PipelineOptions other = options;
  other.source = testing::fake_source();
  EXPECT_THAT(option_differences(identify(options), identify(other)),
              ::testing::ElementsAre("source: rows saved, numbered samples given"));
}

TEST(SampleSource, AStreamsFaultNamesItsSample) {
  PipelineOptions options = rows().options;
  options.batch.size = 5;
  options.fields = {FloatsField{.suffixes = "txt", .size = 2}};
  Pipeline pipeline(std::move(options));
  Batch batch;
  try {
    pipeline.next(batch);
    FAIL() << "a row has one number";
  } catch (const Error& error) {
    EXPECT_FALSE(error.where().key.empty());
    EXPECT_EQ(error.where().url, "");
  }
}

/// Every third sample is lost.
class Lossy final : public SampleSource {
 public:
  std::string name() const override { return "lossy"; }
  std::unique_ptr<Stream> open(const Request& request) const override {
    return std::make_unique<LossyStream>(request.ledger);
  }

 private:
  class LossyStream final : public Stream {
   public:
    explicit LossyStream(std::shared_ptr<wds::FaultLedger> ledger) : ledger_(std::move(ledger)) {}
    bool next(wds::SampleBlock& block) override {
      for (; next_ < 30 && !block.full(); ++next_) {
        if (next_ % 3 != 2) {
          block.add({.key = std::to_string(next_), .fields = {{"cls", io::Bytes::copy_of("1")}}});
          ++given_;
        } else if (ledger_->report(Error(ErrorCode::kIo, "lost")) == wds::OnFault::kStop) {
          return false;
        }
      }
      return !block.samples.empty();
    }
    wds::StreamPosition position() const override { return {.samples_out = given_}; }

   private:
    std::shared_ptr<wds::FaultLedger> ledger_;
    std::uint64_t next_ = 0;
    std::uint64_t given_ = 0;
  };
};

TEST(SampleSource, SkipsByTheFaultPolicy) {
  PipelineOptions options{.source = std::make_shared<const Lossy>(),
                          .fields = {LabelField{}},
                          .batch = {.size = 4},
                          .faults = {.on_fault = wds::OnFault::kSkip}};
  Pipeline skipping(options);
  std::int64_t valid = 0;
  for (Batch batch; skipping.next(batch);) valid += batch.num_valid;
  EXPECT_EQ(valid, 20);
  EXPECT_EQ(skipping.statistics().skipped, 10U);
  EXPECT_EQ(skipping.ledger()->read(), 30U);
  options.faults = {};
  Pipeline failing(options);
  Batch batch;
  EXPECT_THROW(failing.next(batch), Error);
}

/// Streams of 20 samples each epoch that say they drain from the first block on; what the next
/// epoch's reads ahead fails.
class BrokenAhead final : public SampleSource {
 public:
  std::string name() const override { return "broken ahead"; }
  std::unique_ptr<Stream> open(const Request& request) const override {
    return std::make_unique<Drain>(request.epoch);
  }

 private:
  class Drain final : public Stream {
   public:
    explicit Drain(std::uint32_t epoch) : epoch_(epoch) {}
    bool next(wds::SampleBlock& block) override {
      for (int i = 0; i < 5 && next_ < 20; ++i, ++next_)
        block.add({.key = std::to_string(next_),
                   .fields = {{.suffix = "cls", .data = io::Bytes::copy_of("1")}}});
      return !block.samples.empty();
    }
    wds::StreamPosition position() const override { return {.samples_out = next_}; }
    bool is_draining() const override { return true; }
    void prefill(std::size_t samples, std::size_t bytes) override {
      EXPECT_EQ(epoch_, 1U);
      EXPECT_EQ(samples, bytes) << "as much room as was left";
      if (samples > 10) throw Error(ErrorCode::kTruncated, "cut");
    }

   private:
    std::uint32_t epoch_;
    std::uint64_t next_ = 0;
  };
};

TEST(SampleSource, AFaultOfTheNextEpochComesAfterThisOne) {
  PipelineOptions options = fake_options(1, 4);
  options.fields = {LabelField{.classes = 10}};
  options.source = std::make_shared<const BrokenAhead>();
  options.epochs.count = 2;
  Pipeline pipeline(options);
  Batch batch;
  int batches = 0;
  while (pipeline.next(batch)) ++batches;
  EXPECT_EQ(batches, 5);
  try {
    pipeline.next(batch);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTruncated);
  }
}

}  // namespace
}  // namespace millrace::pipeline
