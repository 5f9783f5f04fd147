// SampleSource: samples for a pipeline that are not in shards.
//
//   class Rows final : public SampleSource { ... };  // tests/install/user_project/own_source.cc
//   auto pipeline = Pipeline::Builder()
//       .source(std::make_shared<const Rows>(table))
//       .split({.workers = 4})
//       .field(...).batch({.size = 128}).build();
//
// The pipeline divides each epoch into streams, opens those of its process, epoch after epoch, and
// reads them in blocks on its I/O threads. The later stages work as with shards: fields, batches
// and masks, epochs, processes, statistics and positions. The order within a stream is up to the
// source: ShuffleOptions other than the seed are for shards alone.
//
// Order: a stream's samples and their bytes must depend on its Request alone, never on threads or
// timing; only then can a run be repeated and resumed.
// Buffers: what a source holds is not counted in the pipeline's memory budget.
// Threads: a source's members are called from several threads at once; a Stream's from one at a
// time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "wds/fault_ledger.h"
#include "wds/sample_stream.h"

namespace millrace::pipeline {

struct PipelineOptions;

class SampleSource {
 public:
  /// Which stream of which epoch.
  struct Request {
    int stream = 0;  ///< 0 <= stream < num_streams
    int num_streams = 1;
    std::uint32_t epoch = 0;
    /// ShuffleOptions::seed, for sources that shuffle: key it by epoch and stream.
    std::uint64_t seed = 0;
    /// The length of the stream, its samples before `start` included: it ends there, or starts over
    /// until there, unless it has no sample at all. 0: each of its samples once.
    std::uint64_t max_samples = 0;
    /// Where to start: an earlier position() of this stream. Null: its beginning. Lifetime: the
    /// call of open().
    const wds::StreamPosition* start = nullptr;
    /// Goes up with each sample that is read again for `start`'s buffer. Null: nobody counts.
    std::atomic<std::uint64_t>* restored = nullptr;
    /// Only the samples' keys and places are wanted: fields may be left out.
    bool keys_only = false;
    /// Of the epoch: a lost sample is passed to report(), which throws unless the fault policy
    /// skips it.
    std::shared_ptr<wds::FaultLedger> ledger = nullptr;
    /// When it is requested, a stream that waits throws Cancelled.
    std::stop_token stop = {};
  };

  /// One stream of one epoch.
  class Stream {
   public:
    virtual ~Stream() = default;
    /// Adds the next samples to `block`, which is empty, at most until it is full(), and returns
    /// true; returns false, with nothing added, at the end. Throws: the fault that ends the
    /// pipeline, after the batches before it.
    virtual bool next(wds::SampleBlock& block) = 0;
    /// Where the stream stands after the last block: `samples_out` counts the epoch's samples up to
    /// here, those before `start` included; the other members are the source's to use.
    virtual wds::StreamPosition position() const = 0;
    /// True if what next() still returns needs no more reading. Then the stream of the next epoch
    /// is opened and may read ahead, so that no consumer waits between epochs.
    virtual bool is_draining() const { return false; }
    /// Before the first next(): may read ahead, and then hold, at most so many samples and bytes.
    /// What next() returns stays the same. Throws: as next().
    virtual void prefill(std::size_t /*samples*/, std::size_t /*bytes*/) {}
    /// Bytes of samples that were read again to continue at Request::start; a figure for reports.
    virtual std::uint64_t restored_bytes() const { return 0; }
  };

  virtual ~SampleSource() = default;

  /// What the samples are, in a few words: "rows of table t". A position that was saved with
  /// another name is refused.
  virtual std::string name() const = 0;
  /// Throws: the fault that ends the pipeline, as Stream::next(). Lifetime: the source outlives its
  /// streams.
  virtual std::unique_ptr<Stream> open(const Request& request) const = 0;
  /// Samples of an epoch over all streams, for schedules and progress: to be implemented if the
  /// number is known and stream s has stream_share(n, num_streams, s) of them.
  virtual std::optional<std::int64_t> num_samples() const { return {}; }
};

/// Where the samples of `options` come from: its source, or its shards. Requires: options from
/// with_counts().
std::shared_ptr<const SampleSource> source_of(const PipelineOptions& options);

/// How many of `samples` belong to `stream` if streams take them in turn.
constexpr std::uint64_t stream_share(std::int64_t samples, int num_streams, int stream) {
  if (samples <= stream) return 0;
  return static_cast<std::uint64_t>((samples - stream + num_streams - 1) / num_streams);
}

}  // namespace millrace::pipeline
