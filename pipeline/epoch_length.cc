#include "pipeline/epoch_length.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

#include "io/base/error.h"
#include "io/opener.h"
#include "pipeline/sample_source.h"
#include "wds/sample_counts.h"
#include "wds/split.h"

namespace millrace::pipeline {
namespace {

bool divides_samples(const PipelineOptions& options) {
  return !options.split.process_splitter && !options.split.worker_splitter &&
         !options.epochs.resampled && options.shuffle.order == wds::Order::kMillrace;
}

void warn_of_undivided(PipelineOptions& options, const Error& fault) {
  const std::string kind = "an index is damaged, so whole shards are divided into streams";
  if (!options.faults.said) options.faults.said = std::make_shared<wds::SaidWarnings>();
  options.faults.said->warn(options.log, kind, kind + ": " + fault.what());
}

void look_up(PipelineOptions& options) {
  if (!options.opener) options.opener = std::make_shared<io::UrlOpener>();
  bool damaged = false;
  const auto ask = [&](const std::string& shard, const Error& fault) {
    damaged = true;
    const auto& listed = options.faults.samples_of;
    const auto count = listed ? listed(shard) : std::nullopt;
    if (!count) warn_of_undivided(options, fault);
    return count;
  };
  options.counts = wds::sample_counts(
      *options.opener, options.shards, options.stop,
      options.faults.require_index ? wds::OnDamagedIndex() : wds::OnDamagedIndex(ask));
  // Without indexes, a request for one at every shard would be a wasted round trip.
  const bool network =
      std::any_of(options.shards.begin(), options.shards.end(), io::is_network_url);
  if (!options.counts && network && !damaged) options.indexed = false;
}

/// Of one pass through all streams; nullopt where unknown.
std::optional<std::int64_t> samples_of_set(const PipelineOptions& options) {
  if (options.source) return options.source->num_samples();
  if (!options.counts) return {};
  return static_cast<std::int64_t>(
      std::accumulate(options.counts->begin(), options.counts->end(), std::uint64_t{0}));
}

/// Of an epoch in one stream.
std::int64_t stream_samples(const PipelineOptions& options, std::optional<std::int64_t> total,
                            int stream) {
  const int streams = wds::num_streams(options.split);
  const auto share = [&](std::int64_t samples) {
    return static_cast<std::int64_t>(stream_share(samples, streams, stream));
  };
  const bool empty = total && share(*total) == 0;
  return options.epochs.samples > 0 && !empty ? share(options.epochs.samples)
                                              : share(total.value_or(0));
}

}  // namespace

PipelineOptions with_counts(PipelineOptions options) {
  if (options.source || !divides_samples(options)) {
    options.counts = nullptr;
  } else if (options.indexed && !options.counts) {
    look_up(options);
  }
  return options;
}

std::optional<std::int64_t> samples_per_epoch(const PipelineOptions& options) {
  const auto total = samples_of_set(options);
  if (!total && options.epochs.samples == 0) return {};
  std::int64_t samples = 0;
  for (const int stream : wds::streams_of_process(options.split))
    samples += stream_samples(options, total, stream);
  return samples;
}

std::optional<std::int64_t> batches_per_epoch(const PipelineOptions& options) {
  if (options.epochs.batches > 0) return options.epochs.batches;
  const auto samples = samples_per_epoch(options);
  if (!samples) return {};
  const std::int64_t more = options.batch.drop_last ? 0 : options.batch.size - 1;
  return (*samples + more) / options.batch.size;
}

}  // namespace millrace::pipeline
