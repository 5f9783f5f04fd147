// Statistics: counters of a pipeline's stages, and which of them limits the rate.
//
//   std::cerr << pipeline.statistics().to_text();
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace::pipeline {

struct StageStatistics {
  std::string name;         ///< "read", "merge", "decode", "deliver"
  std::uint64_t items = 0;  ///< samples
  std::uint64_t bytes = 0;  ///< encoded bytes; of "deliver": batch bytes
  /// Summed over the stage's threads.
  std::chrono::nanoseconds busy{0};
  /// How long the stage had nothing to do or was blocked, summed over its threads.
  std::chrono::nanoseconds waiting{0};
  int threads = 1;  ///< now

  /// Share of its threads' time that the stage was busy, 0 to 1.
  double utilisation() const;
};

enum class Bound {
  kUnknown,   ///< nothing ran yet
  kInput,     ///< the consumer waited: a stage of the pipeline is the bottleneck
  kConsumer,  ///< batches waited for the consumer
};

struct Verdict {
  Bound bound = Bound::kUnknown;
  /// The busiest stage, when input-bound.
  std::string stage;
  /// Share of the elapsed time that the consumer spent in next(), 0 to 1.
  double wait_share = 0.0;
  /// "input-bound by decode (98 % busy): the consumer waited 61.3 % of the time"
  std::string text;
};

/// What autotune chose.
struct Tuning {
  bool on = false;
  int readers = 0;         ///< I/O threads
  int decode_threads = 0;  ///< of the pipeline's arena
  int read_ahead = 0;      ///< blocks read ahead of each stream
  /// "32 blocks read ahead of each stream (2 at first), 4 readers, 2 decoding threads: the consumer
  /// hardly waits"
  std::string text = {};
};

/// The pictures of all fields, but for those that need no decoding (8-bit PPM and PGM).
struct DecodedPictures {
  std::uint64_t decoded = 0;             ///< times that a picture was decoded
  std::uint64_t decoded_bytes = 0;       ///< of these pictures as a whole, decoded
  std::chrono::nanoseconds decoding{0};  ///< summed over threads: a part of the stage's busy time
  std::uint64_t found = 0;               ///< times that ResourceOptions::decoded had the picture
  std::uint64_t kept = 0;                ///< pictures in it now
  std::uint64_t kept_bytes = 0;          ///< what it holds now
  std::uint64_t cache_bytes = 0;         ///< what it may hold; 0: there is none
  /// What the pictures of all samples take, decoded, by those that were; 0: not known.
  std::uint64_t set_bytes = 0;
  /// Whether more epochs come, in which they are decoded again.
  bool is_repeated = false;
};

struct Statistics {
  std::vector<StageStatistics> stages;
  std::chrono::nanoseconds elapsed{0};        ///< since the first call of next()
  std::chrono::nanoseconds consumer_wait{0};  ///< spent in next()
  std::uint64_t batches = 0;                  ///< handed out
  std::uint64_t samples = 0;                  ///< valid slots handed out
  std::uint64_t masked = 0;                   ///< masked slots handed out
  std::uint64_t dropped = 0;                  ///< samples left out: of an incomplete or cut batch
  std::uint64_t later_faults = 0;             ///< faults after the first one, which was thrown
  /// Samples with an image that was decoded although its file is untidy (decode::Tidiness).
  std::uint64_t untidy = 0;
  /// Samples that the fault policy skipped, up to and including the epoch being handed out; since()
  /// between two epoch ends has those of one epoch.
  std::uint64_t skipped = 0;
  /// Lost shards of unknown size, each of which `skipped` counts as one sample.
  std::uint64_t unknown_shards = 0;
  /// Samples and indexes of the same epochs that arrived damaged over the network and intact when
  /// fetched again.
  std::uint64_t refetched = 0;
  /// What it takes to continue at PipelineOptions::resume: samples to be read again to fill the
  /// shuffle buffers (and to reach the position, of a source without trails), how many of them have
  /// been, the bytes that were read for those streams that are done, and how long the slowest one
  /// took.
  std::uint64_t samples_to_restore = 0;
  std::uint64_t restored_samples = 0;
  std::uint64_t restored_bytes = 0;
  std::chrono::nanoseconds restore_time{0};
  /// Bytes of encoded blocks and of batches, now, and a bound of the most so far. Readers and
  /// shuffle buffers are not counted; with them it is below memory_bound_bytes().
  std::uint64_t held_bytes = 0;
  std::uint64_t peak_held_bytes = 0;
  Tuning tuning = {};
  DecodedPictures pictures = {};

  /// Throws: InvalidArgument when there is no such stage.
  const StageStatistics& stage(const std::string& name) const;
  Verdict verdict() const;
  /// What a cache of decoded pictures holds, or what one would bring where decoding limits and its
  /// pictures fit into this machine's memory: "decoding pictures is 83 % of that stage's work, ..."
  /// Empty if there is nothing to say.
  std::string about_pictures() const;
  /// The counters' increase since `earlier`, for example over an epoch; held bytes stay as they
  /// are.
  Statistics since(const Statistics& earlier) const;
  /// A line for each stage, one for what autotune chose, one for the verdict, and about_pictures().
  std::string to_text() const;
  std::string to_json() const;
};

}  // namespace millrace::pipeline
