// write_set: writes a source's samples to a set of shards, or one set per fold. If interrupted at
// any point, the same command continues it.
//
// Each set consists of its shards, their indexes, a manifest and the class names. Until all exist
// there is a JobState next to them; a run that finds its own keeps the intact shards and produces
// only the samples after them. Where several processes write together, the ones behind a gap are
// written again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tools/command.h"
#include "tools/create/sample_source.h"
#include "trainer/cluster.h"
#include "wds/shard_writer.h"

namespace millrace::tools {

struct WriteSetOptions {
  /// Contains {fold} if there are folds.
  std::string pattern;
  /// Number of sets that the samples are divided into without splitting groups; 0: one set.
  std::uint32_t folds = 0;
  std::uint64_t maxcount = 100'000;
  std::uint64_t maxsize = 3'000'000'000;
  /// Writes indexes and manifests.
  bool index = true;
  /// Shuffles all samples with this seed, which the folds also use.
  std::optional<std::uint64_t> shuffle = {};
  /// Deletes an existing set, unless it is this one, unfinished.
  bool force = false;
  /// Threads that produce samples; 0: one per core.
  int threads = 0;
  /// Everything else that affects the samples' bytes, in any form.
  std::string source_options = {};
  /// Manifest::pictures.
  wds::StoredPictures pictures = {};
  /// What the closing line says at its end; every process calls it, when all is written.
  std::function<std::string()> closing = {};
  /// Called for each completed shard, those of an earlier run first.
  std::function<void(const wds::ShardSummary& shard)> on_shard = {};
  /// Called after each sample with the number done and to be done by this process in this run.
  std::function<void(std::uint64_t done, std::uint64_t all)> on_sample = {};
};

/// Throws: InvalidArgument for what write_set() would reject without looking at the source.
void check_set(const WriteSetOptions& options);

/// Each process of `cluster` writes the shards whose number mod processes is its own; their options
/// and sources are equal, which is compared first, and process 0 does all else. Throws: Corrupt (a
/// process has another source; nothing is written), InvalidArgument (shards exist, too
/// few groups; several processes and a shard that maxsize would end), Io, Cancelled, and as the
/// source.
void write_set(const SampleSource& source, const WriteSetOptions& options,
               const CommandContext& context, trainer::Cluster& cluster);

}  // namespace millrace::tools
