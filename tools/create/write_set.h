// write_set: a source's samples into a set of shards, or one set a fold, that can be cut short at
// any point and gone on with by the same command.
//
// Each set is its shards, their indexes, a manifest and the classes' names. Until all are there a
// JobState lies beside them; a run that finds its own keeps the shards that are whole, and makes
// the samples behind them alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tools/command.h"
#include "tools/create/sample_source.h"
#include "wds/shard_writer.h"

namespace millrace::tools {

struct WriteSetOptions {
  /// With {fold} in it when there are folds.
  std::string pattern;
  /// Sets that the samples are divided into, groups whole; 0: one set of all.
  std::uint32_t folds = 0;
  std::uint64_t maxcount = 100'000;
  std::uint64_t maxsize = 3'000'000'000;
  /// Writes indexes and manifests.
  bool index = true;
  /// Shuffles all samples by this seed, which is the folds' too.
  std::optional<std::uint64_t> shuffle = {};
  /// Deletes the set that is there, unless it is this one, unfinished.
  bool force = false;
  /// Threads that make samples; 0: one a core.
  int threads = 0;
  /// Says in any form what else the samples' bytes depend on.
  std::string source_options = {};
  /// Called for each shard in its place, those of an earlier run first.
  std::function<void(const wds::ShardSummary& shard)> on_shard = {};
};

/// Throws: InvalidArgument for what write_set() would refuse without looking at the source.
void check_set(const WriteSetOptions& options);

/// Throws: InvalidArgument (shards exist, too few groups), Io, Cancelled, and what making throws.
void write_set(const SampleSource& source, const WriteSetOptions& options, const Context& context);

}  // namespace millrace::tools
