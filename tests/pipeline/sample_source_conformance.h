// The requirements of every SampleSource, alone and in a pipeline. To test one, in a file of its
// own:
//
//   INSTANTIATE_TEST_SUITE_P(Mine, SampleSourceConformance,
//                            ::testing::Values(SourceCase{"mine", [] { return my_data(); }}),
//                            case_name);
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/base/hash.h"
#include "pipeline/detail/resolve.h"
#include "pipeline/epoch_length.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline {

/// A set of samples: 30 to 300 of them, each with a key of its own within an epoch.
struct SourceData {
  PipelineOptions options = {};      ///< with the source or the shards
  std::shared_ptr<void> owner = {};  ///< of the data that is read
};

struct SourceCase {
  std::string name;
  std::function<SourceData()> make;
};

inline std::string case_name(const ::testing::TestParamInfo<SourceCase>& info) {
  return info.param.name;
}

/// A hash of a sample's key, fields and randomness.
inline FieldSpec content_field() {
  return FunctionField{.name = "content",
                       .output = {decode::DType::kInt64, {1}},
                       .decode = [](const wds::Sample& sample, const decode::SampleId& id,
                                    std::span<std::byte> slot) {
                         std::uint32_t sum = crc32(std::as_bytes(std::span(sample.key)));
                         for (const wds::Field& field : sample.fields)
                           sum = crc32(field.data.span(),
                                       sum ^ crc32(std::as_bytes(std::span(field.suffix))));
                         KeyedRng rng = id.rng(Purpose::kSynthetic);
                         const auto value = static_cast<std::int64_t>(sum ^ rng());
                         std::memcpy(slot.data(), &value, sizeof value);
                       }};
}

class SampleSourceConformance : public ::testing::TestWithParam<SourceCase> {
 protected:
  using Keys = std::vector<std::string>;

  SampleSourceConformance() {
    PipelineOptions& options = data_.options;
    options.fields = {content_field()};
    options.batch.size = 8;
    options.epochs.count = 2;
    options.resources.threads = 2;
  }

  std::shared_ptr<const SampleSource> source(int num_streams) const {
    PipelineOptions options = data_.options;
    options.split.streams = num_streams;
    return source_of(detail::resolve_options(std::move(options)));
  }
  std::unique_ptr<SampleSource::Stream> open(SampleSource::Request request) const {
    request.ledger = std::make_shared<wds::FaultLedger>();
    request.seed = data_.options.shuffle.seed;
    return source(request.num_streams)->open(request);
  }

  /// Returns keys and contents of the rest, and checks each block against the contract.
  static Keys drain(SampleSource::Stream& stream) {
    Keys all;
    for (;;) {
      const std::uint64_t before = stream.position().samples_out;
      wds::SampleBlock block;
      if (!stream.next(block)) return all;
      EXPECT_FALSE(block.samples.empty());
      EXPECT_LE(block.samples.size(), wds::SampleBlock::kMaxSamples);
      EXPECT_EQ(stream.position().samples_out, before + block.samples.size());
      std::size_t bytes = 0;
      for (const wds::Sample& sample : block.samples) {
        EXPECT_FALSE(sample.key.empty());
        bytes += sample.num_bytes();
        all.push_back(sample.key);
        for (const wds::Field& field : sample.fields)
          all.back() += " " + field.suffix + " " + std::to_string(crc32(field.data.span()));
      }
      EXPECT_EQ(block.num_bytes, bytes);
    }
  }

  Keys stream_of(const SampleSource::Request& request) const { return drain(*open(request)); }

  /// Two epochs in batches of 8.
  PipelineOptions options(int num_streams) const {
    PipelineOptions options = data_.options;
    options.split.streams = num_streams;
    return options;
  }

 private:
  SourceData data_ = GetParam().make();
};

TEST_P(SampleSourceConformance, HasAName) { EXPECT_FALSE(source(2)->name().empty()); }

TEST_P(SampleSourceConformance, AStreamIsAFunctionOfItsRequest) {
  for (const std::uint32_t epoch : {0U, 3U}) {
    const SampleSource::Request request{.stream = 1, .num_streams = 2, .epoch = epoch};
    EXPECT_EQ(stream_of(request), stream_of(request)) << epoch;
  }
}

TEST_P(SampleSourceConformance, StreamsDivideAnEpoch) {
  for (const int num_streams : {1, 2, 3}) {
    const auto known = source(num_streams)->num_samples();
    std::set<std::string> seen;
    std::size_t count = 0;
    for (int stream = 0; stream < num_streams; ++stream) {
      const Keys keys = stream_of({.stream = stream, .num_streams = num_streams, .epoch = 1});
      seen.insert(keys.begin(), keys.end());
      count += keys.size();
      if (known) {
        EXPECT_EQ(keys.size(), stream_share(*known, num_streams, stream));
      }
    }
    EXPECT_GT(count, 0U);
    EXPECT_EQ(seen.size(), count) << "a sample came twice";
  }
}

TEST_P(SampleSourceConformance, AStreamContinuesFromEachOfItsPositions) {
  for (const std::uint64_t max_samples : {0U, 200U}) {
    const SampleSource::Request request{.num_streams = 2, .epoch = 1, .max_samples = max_samples};
    const Keys whole = stream_of(request);
    const auto stream = open(request);
    for (bool more = true; more;) {
      const wds::StreamPosition position = stream->position();
      SampleSource::Request rest = request;
      rest.start = &position;
      const auto given = static_cast<std::ptrdiff_t>(position.samples_out);
      EXPECT_EQ(stream_of(rest), Keys(whole.begin() + given, whole.end())) << given;
      wds::SampleBlock block;
      more = stream->next(block);
    }
  }
}

TEST_P(SampleSourceConformance, AStreamGivesExactlyAsManySamplesAsRequested) {
  for (const std::uint64_t samples : {1U, 7U, 64U, 500U}) {
    const SampleSource::Request request{.stream = 2, .num_streams = 3, .max_samples = samples};
    EXPECT_EQ(stream_of(request).size(), samples);
  }
}

TEST_P(SampleSourceConformance, BatchesAreTheSameForAnyThreads) {
  const auto run = [&](int threads, int io_threads, int prefetch) {
    PipelineOptions given = options(3);
    given.resources = {.threads = threads, .io_threads = io_threads, .prefetch = prefetch};
    Pipeline pipeline(std::move(given));
    return testing::describe_all(pipeline);
  };
  const auto expected = run(1, 1, 1);
  EXPECT_GT(expected.size(), 6U);
  EXPECT_EQ(run(2, 3, 4), expected);
  EXPECT_EQ(run(8, 2, 9), expected);
}

TEST_P(SampleSourceConformance, APipelineContinuesAfterAnyBatch) {
  for (const std::int64_t samples : {0, 60}) {
    PipelineOptions given = options(2);
    given.epochs.samples = samples;
    testing::expect_same_after_any_resume(given);
  }
}

TEST_P(SampleSourceConformance, ProcessesTogetherGiveTheSamplesOfOne) {
  const auto keys = [&](int process, int processes) {
    PipelineOptions given = options(2);
    given.split.topology = {.process = process, .processes = processes};
    given.epochs = {.count = 1, .samples = 50};
    Pipeline pipeline(std::move(given));
    EXPECT_EQ(samples_per_epoch(pipeline.options()), 50 / processes);
    Keys all;
    for (Batch batch; pipeline.next(batch);)
      for (const std::string& key : batch.keys)
        if (!key.empty()) all.push_back(key);
    return all;
  };
  const Keys all = keys(0, 1);
  const Keys first = keys(0, 2);
  const Keys second = keys(1, 2);
  ASSERT_EQ(all.size(), 50U);
  ASSERT_EQ(first.size() + second.size(), 50U);
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(all[2 * i], first[i]);
    EXPECT_EQ(all[2 * i + 1], second[i]);
  }
}

}  // namespace millrace::pipeline
