// SampleSource: where a pipeline's samples come from, if not from shards.
//
//   class Rows final : public SampleSource { ... };  // tests/install/stranger/own_source.cc
//   auto pipeline = Pipeline::Builder()
//       .source(std::make_shared<const Rows>(table))
//       .split({.workers = 4})
//       .field(...).batch({.size = 128}).build();
//
// The pipeline divides each epoch into streams, opens those of its process, epoch after epoch, and
// reads them in blocks on its I/O threads. All that comes behind is as with shards: fields, batches
// and masks, epochs, processes, statistics and positions. The order within a stream is the source's
// own: ShuffleOptions other than the seed are for shards alone.
//
// Order: a stream's samples, with their bytes, depend on what its Request says alone, never on
// threads or timing: then batches do not either, and a position fits.
// Buffers: whatever a source holds is not in the pipeline's memory budget.
// Threads: a source's members from any number at once; a Stream's from one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "wds/fault_ledger.h"
#include "wds/sample_stream.h"

namespace millrace::pipeline {

class SampleSource {
 public:
  /// Which stream of which epoch.
  struct Request {
    int stream = 0;  ///< 0 <= stream < num_streams
    int num_streams = 1;
    std::uint32_t epoch = 0;
    /// ShuffleOptions::seed, for sources that shuffle: key it by epoch and stream.
    std::uint64_t seed = 0;
    /// The stream begins again or stops so that it gives just this many, unless it has none to
    /// give. 0: once through.
    std::uint64_t max_samples = 0;
    /// Where to go on, as position() of the same stream gave it. Null: at the beginning. Lifetime:
    /// the call of open().
    const wds::StreamPosition* start = nullptr;
    /// Of the epoch: a sample that is skipped is reported here, which throws unless the fault
    /// policy says otherwise.
    std::shared_ptr<wds::FaultLedger> ledger = nullptr;
    /// A stream that waits ends its wait when this is asked for, and throws Cancelled.
    std::stop_token stop = {};
  };

  /// One stream of one epoch.
  class Stream {
   public:
    virtual ~Stream() = default;
    /// Adds the next samples to `block`, which comes empty, until it is full() at the latest, and
    /// is true; false at the end. Throws: what ends the pipeline, at this place of the order.
    virtual bool next(wds::SampleBlock& block) = 0;
    /// Where the stream stands after the last block: `samples_out` is what it gave this epoch,
    /// those before its start included; the rest is for the source to use, or to leave alone.
    virtual wds::StreamPosition position() const = 0;
  };

  virtual ~SampleSource() = default;

  /// What the samples are, in a few words: "rows of table t". A position that was saved with
  /// another name is refused.
  virtual std::string name() const = 0;
  virtual std::unique_ptr<Stream> open(const Request& request) const = 0;
  /// Samples of an epoch over all streams, where that is known and stream s gives
  /// stream_share(n, num_streams, s) of them: schedules and progress then know an epoch's length.
  virtual std::optional<std::int64_t> num_samples() const { return {}; }
};

/// How many of `samples` fall to `stream` when streams take them in turn.
constexpr std::uint64_t stream_share(std::int64_t samples, int num_streams, int stream) {
  if (samples <= stream) return 0;
  return static_cast<std::uint64_t>((samples - stream + num_streams - 1) / num_streams);
}

}  // namespace millrace::pipeline
