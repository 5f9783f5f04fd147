// Statistics: what each stage of a pipeline did, and the verdict on what limits it.
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
  /// How long the stage had nothing to do or could not go on, summed over its threads.
  std::chrono::nanoseconds waiting{0};
  int threads = 1;

  /// Share of the time in which the stage's threads were busy, 0 to 1.
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
  /// "input-bound by decode (98 % busy); the consumer waited 61 % of the time"
  std::string text;
};

struct Statistics {
  std::vector<StageStatistics> stages;
  std::chrono::nanoseconds elapsed{0};        ///< since the first call of next()
  std::chrono::nanoseconds consumer_wait{0};  ///< spent in next()
  std::uint64_t batches = 0;                  ///< handed out
  std::uint64_t samples = 0;                  ///< valid slots handed out
  std::uint64_t masked = 0;                   ///< masked slots handed out
  std::uint64_t dropped = 0;                  ///< samples lost to drop_last or a cut epoch
  std::uint64_t later_faults = 0;             ///< faults after the first one, which was thrown
  /// Samples with an image that was decoded although its file is untidy (decode::Tidiness).
  std::uint64_t untidy = 0;
  /// Samples that the fault policy skipped in the epochs handed out so far, the current one too.
  /// Between two epoch ends, since() is what an epoch cost.
  std::uint64_t skipped = 0;
  /// Shards among them whose number of samples nobody knows: each counts as one sample.
  std::uint64_t unknown_shards = 0;
  /// Samples and indexes that came damaged over the network and whole when they were fetched once
  /// more, in the same epochs.
  std::uint64_t refetched = 0;
  /// Bytes of what the pipeline holds now, and at most so far; the budget is their ceiling.
  std::uint64_t held_bytes = 0;
  std::uint64_t peak_held_bytes = 0;

  /// Throws: InvalidArgument when there is no such stage.
  const StageStatistics& stage(const std::string& name) const;
  Verdict verdict() const;
  /// What happened between `earlier` and this; of an epoch, say.
  Statistics since(const Statistics& earlier) const;
  /// A table of the stages and the verdict, a line each.
  std::string to_text() const;
  std::string to_json() const;
};

}  // namespace millrace::pipeline
