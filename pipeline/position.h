// Position: where a pipeline stands, per stream, saved with the model in one checkpoint. It says
// where each sample of the shuffle buffers lies: 1 to 4 bytes each as JSON, and 1 KB besides.
//
// Each batch has the position after it. A pipeline built with that position continues with the
// batch that would have come next, bit for bit.
//
// Streams do not depend on how many processes share them. So the positions of all processes after
// the same step, joined, are that of the run, which any other number of processes, devices or
// threads continues. A process's position after a step is that of its last device's batch.
//
//   const Position whole = Position::joined(parts);    // one per process, in their order
//   ...
//   auto pipeline = Pipeline::Builder(). ... .resume(whole).build();  // takes its own share
//
// Threads: as a value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/topology.h"
#include "wds/sample_stream.h"

namespace millrace::pipeline {

/// The last one that a run can have: the number after it is still one.
constexpr std::uint32_t kMaxEpoch = std::numeric_limits<std::uint32_t>::max() - 1;

struct Position {
  /// The trails of the blocks behind a stream's `start`, from the last one back.
  struct Trails {
    std::shared_ptr<const wds::StreamTrail> last;
    std::shared_ptr<const Trails> before;
  };
  /// One stream: it stands `skip` samples behind `start`.
  struct Stream {
    /// Shared by the positions of many batches; null: the stream's beginning.
    std::shared_ptr<const wds::StreamPosition> start;
    std::uint64_t skip = 0;
    bool ended = false;
    wds::LostSamples lost = {};  ///< in the epoch, if it has ended
    /// Of those samples, if its source leaves trails; otherwise they are read again and dropped.
    std::shared_ptr<const Trails> trails = nullptr;

    /// The same place with nothing to skip, where there are trails.
    Stream exact() const;
    /// Samples of the epoch before it.
    std::uint64_t samples_out() const { return (start ? start->samples_out : 0) + skip; }
  };

  /// The batches of a round, which has one for each device, that have been handed out.
  struct Round {
    std::int64_t taken = 0;
    std::int64_t devices = 1;
    std::int64_t batch_size = 0;
  };

  /// With BatchOptions::fill, what a process's batches took of those behind them.
  struct Fill {
    std::int64_t passed = 0;   ///< slots behind `streams` whose samples are used or lost
    std::int64_t batches = 0;  ///< so many more than `slots` are before `streams`: all used up
    std::int64_t devices = 1;
    std::int64_t batch_size = 0;

    bool is_none() const { return passed == 0 && batches == 0; }
  };

  /// Samples by the faults that have cost them.
  using Losses = std::map<ErrorCode, std::uint64_t>;

  /// Digests of what the shards hold, which tell a set from another of the same names and numbers
  /// of samples.
  struct Contents {
    std::string pieces = {};   ///< of each local shard's size and parts of it; empty: not known
    std::string indexes = {};  ///< of what the indexes say of whole shards, where all have one

    bool is_known() const { return !pieces.empty() || !indexes.empty(); }
    /// By what both know.
    bool differs_from(const Contents& other) const;
  };

  /// What has come of the epoch's samples before it.
  struct Account {
    std::uint64_t emitted = 0;
    /// Those lost in reading, of which only the number is kept, are kCorrupt.
    Losses skipped = {};
    /// Shards of unknown size that are lost besides; each is in `skipped` as one sample.
    std::uint64_t unknown = 0;

    std::uint64_t num_skipped() const;
  };

  std::uint32_t epoch = 0;
  /// Whose it is: `streams` are those of `process` of `processes`, ascending. What is joined is
  /// process 0 of 1.
  int process = 0;
  int processes = 1;
  /// How many neighbouring streams a process has before the next one's follow
  /// (wds::stream_stripe): with more than one of `turns`, of the processes that took them.
  int stripe = 1;
  /// Slots of the epoch already used here, masked ones included.
  std::int64_t slots = 0;
  /// In the middle of a round, which is then begun again: `slots` and `streams` stand at its
  /// beginning; of masked batches alone, which are not, where they are. Only as many devices with
  /// the same batch size continue there.
  Round round = {};
  /// One of each process, as `turns`; empty: nothing is filled. Only as many processes and devices
  /// with the same batch size continue there.
  std::vector<Fill> fills = {};
  /// The stream that gives the next sample, an index into `streams`. Where a stream ended before
  /// the others, processes that are joined have no common order any more: then one per process, an
  /// index into its own streams.
  std::vector<std::uint32_t> turns = {0};
  /// Empty: the epoch's beginning.
  std::vector<Stream> streams = {};
  /// Samples of the epoch that had a slot before it and could not be decoded. What was lost in
  /// reading is in `streams`.
  Losses undecoded = {};
  /// A hash of all that fixes the order of samples. A pipeline refuses `streams` with another.
  std::uint64_t fingerprint = 0;
  /// ShuffleOptions::seed_processes of the run, which other processes take over; 0: it has none.
  int seed_processes = 0;
  /// Name and value of each of those, for what a pipeline says when it refuses; null: not known.
  std::shared_ptr<const std::vector<std::pair<std::string, std::string>>> order = nullptr;

  /// Of the shards that `streams` read, as Pipeline::position_to_save() looks at them. A pipeline
  /// refuses `streams` with others.
  Contents contents = {};

  /// Whether the epoch has no sample left in any of its streams.
  bool all_ended() const { return std::ranges::all_of(streams, &Stream::ended); }
  /// The beginning of an epoch.
  static Position start_of(std::uint32_t epoch) { return {.epoch = epoch}; }
  /// That of another epoch of the same run.
  Position beginning_of(std::uint32_t another) const {
    return {.epoch = another, .seed_processes = seed_processes};
  }
  /// A function of the position alone, whatever has been read ahead of it.
  Account account() const;
  /// That of all processes together, from each one's after the same step, in their order. One that
  /// has no streams has taken no batch; one with fewer slots than another had no more to take.
  /// Throws: InvalidArgument for positions that do not belong together.
  static Position joined(std::span<const Position> parts);
  /// The position of `topology.process` alone, whose streams have that stripe: the same one, if it
  /// is that process's. Throws: InvalidArgument, with the numbers, where the position is another
  /// process's alone, where streams or slots do not divide, and where a stream ended before the
  /// others and it was another number of processes, or of devices, that took turns.
  Position share(const Topology& topology, int stripe) const;

  std::string to_json() const;
  /// Throws: Corrupt.
  static Position from_json(const std::string& text);
};

}  // namespace millrace::pipeline
