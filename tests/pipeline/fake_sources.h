// Fake sources: streams of numbered samples, so that a test knows the content of every slot, and
// can make a stream slow, endless, blocked or faulty.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "pipeline/sample_source.h"

namespace millrace::testing {

struct FakeStreams {
  /// Samples of a stream in an epoch, unless the request sets their number. Default: 100.
  std::function<std::int64_t(int stream, std::uint32_t epoch)> length = {};
  std::size_t block_samples = 7;
  std::size_t payload_bytes = 16;
  std::chrono::microseconds delay_per_block{0};
  /// Called before a block is read; may throw.
  std::function<void(int stream, std::uint32_t epoch, std::uint64_t index)> before_block = {};
  /// The stream waits at this sample until it is stopped.
  std::int64_t block_at = -1;
  std::shared_ptr<std::atomic<int>> blocks_read = std::make_shared<std::atomic<int>>(0);
};

/// A pipeline's source of these streams.
std::shared_ptr<const pipeline::SampleSource> fake_source(const FakeStreams& streams = {});

/// "stream/epoch/index", the key of a fake sample.
std::string fake_key(int stream, std::uint32_t epoch, std::uint64_t index);

/// int64 (2): the sample's number and 32 bits drawn by its SampleId. Throws Corrupt for samples
/// whose key `faulty` selects.
pipeline::FieldSpec number_field(std::function<bool(const std::string& key)> faulty = {});

/// Options without a source: one field, `streams` streams.
pipeline::PipelineOptions fake_options(int streams, std::int64_t batch_size);

pipeline::Pipeline fake_pipeline(pipeline::PipelineOptions options,
                                 const FakeStreams& streams = {});

/// All that is deterministic about a batch, as text: not the arrays of one without samples.
std::string describe(const pipeline::Batch& batch);
/// The batches of all epochs, "end" at the end of each.
std::vector<std::string> describe_all(pipeline::Pipeline& pipeline);

/// Runs a pipeline to its end, then one from each of its positions, and expects the same batches.
/// Returns the positions as JSON, after each batch and each epoch's end.
std::vector<std::string> expect_same_after_any_resume(pipeline::PipelineOptions options);

}  // namespace millrace::testing
