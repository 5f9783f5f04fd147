#include "pipeline/detail/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "io/base/cores.h"
#include "io/base/error.h"
#include "io/base/hash.h"
#include "pipeline/epoch_length.h"
#include "wds/split.h"

namespace millrace::pipeline::detail {
namespace {

void check_batches(const PipelineOptions& options) {
  const BatchOptions& batch = options.batch;
  require(batch.size > 0, fmt::format("batch size {}: must be above 0", batch.size));
  require(!(batch.partial && batch.drop_last), "a last batch is either partial or dropped");
  require(!options.fields.empty(), "a pipeline needs at least one field");
  const EpochOptions& epochs = options.epochs;
  require(epochs.samples >= 0 && epochs.batches >= 0, "an epoch's samples and batches: 0 or above");
  require(!epochs.resampled || epochs.samples > 0 || epochs.batches > 0,
          "resampled shards have no end: an epoch needs its number of samples or batches");
}

/// A user's splitters may leave a stream without shards: better found now than in its epoch.
void check_splitters(const PipelineOptions& options) {
  require(!options.epochs.resampled, "resampled shards are drawn from all: no splitters with them");
  wds::StreamSpec spec{.shards = std::make_shared<const std::vector<std::string>>(options.shards),
                       .shuffle = options.shuffle,
                       .num_streams = options.split.streams,
                       .epoch = options.epochs.first,
                       .processes = options.split.topology.processes,
                       .process_splitter = options.split.process_splitter,
                       .worker_splitter = options.split.worker_splitter};
  for (const int stream : owned_streams(options)) {
    spec.stream = stream;
    static_cast<void>(wds::stream_shards(spec));
  }
}

void check_split(const PipelineOptions& options) {
  if (options.split.process_splitter || options.split.worker_splitter) {
    check_splitters(options);
  } else if (!options.epochs.resampled && !options.counts) {
    wds::check_enough_shards(options.shards.size(), options.split);
  }
}

/// What is for shards alone goes with no other source.
void check_source(const PipelineOptions& options) {
  const wds::ShuffleOptions& shuffle = options.shuffle;
  require(options.shards.empty(), "a pipeline has shards or a source, not both");
  require(!shuffle.shards && shuffle.buffer_samples == 0 && shuffle.order == wds::Order::kMillrace,
          "shuffle: a source has an order of its own, to which the seed alone applies");
  require(!options.split.process_splitter && !options.split.worker_splitter &&
              !options.epochs.resampled && !options.indexed,
          "splitters, resampling and indexes are for shards, not for a source");
}

void check_counts(const PipelineOptions& options) {
  require(!options.counts || options.counts->size() == options.shards.size(),
          "counts: one number a shard");
}

void check_resources(const ResourceOptions& resources) {
  require(resources.threads >= 0, fmt::format("threads {}: must be above 0", resources.threads));
  require(resources.io_threads >= 0,
          fmt::format("I/O threads {}: must be above 0", resources.io_threads));
  require(resources.prefetch > 0, fmt::format("prefetch {}: must be above 0", resources.prefetch));
}

}  // namespace

PipelineOptions resolve_options(PipelineOptions options) {
  check_batches(options);
  check_resources(options.resources);
  if (options.source) check_source(options);
  require(options.source || !options.shards.empty(), "no shards");
  options.split.streams = wds::num_streams(options.split);
  options = with_counts(std::move(options));
  check_counts(options);
  if (!options.source) check_split(options);
  ResourceOptions& resources = options.resources;
  const auto lanes = static_cast<int>(owned_streams(options).size());
  if (resources.threads == 0) resources.threads = usable_cores();
  if (resources.io_threads == 0) resources.io_threads = 16;
  resources.io_threads = std::min(resources.io_threads, lanes);
  if (!options.opener) options.opener = std::make_shared<io::UrlOpener>();
  return options;
}

std::vector<int> owned_streams(const PipelineOptions& options) {
  return wds::streams_of_process(options.split);
}

std::string base_name(const std::string& url) {
  const std::string path = io::printable_url(url);
  return path.substr(path.find_last_of('/') + 1);
}

std::vector<std::pair<std::string, std::string>> order_options(const PipelineOptions& options) {
  const wds::ShuffleOptions& shuffle = options.shuffle;
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  std::vector<std::pair<std::string, std::string>> list = {
      {"processes", text(options.split.topology.processes)},
      {"process", text(options.split.topology.process)},
      {"streams", text(wds::num_streams(options.split))},
      {"shuffle-shards", text(shuffle.shards)},
      {"shuffle", text(shuffle.buffer_samples)},
      {"shuffle-bytes", text(shuffle.buffer_bytes)},
      {"shuffle-initial", text(shuffle.initial_samples)},
      {"shuffle-seed", text(shuffle.seed)},
      {"order", shuffle.order == wds::Order::kWebDataset ? "webdataset" : "millrace"},
      {"shard-buffer", text(shuffle.shard_buffer)},
      {"detshuffle", text(shuffle.detshuffle)},
      {"batch-size", text(options.batch.size)},
      {"epoch-samples", text(options.epochs.samples)},
      {"epoch-batches", text(options.epochs.batches)},
      {"resampled", text(options.epochs.resampled)}};
  if (options.source) list.emplace_back("source", options.source->name());
  return list;
}

std::uint64_t order_fingerprint(const PipelineOptions& options) {
  std::string text;
  for (const auto& [name, value] : order_options(options)) text += name + " " + value + "\n";
  if (options.counts) text += fmt::format("|{}", fmt::join(*options.counts, " "));
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  for (const std::string& shard : options.shards) {
    const std::string name = base_name(shard) + '\n';
    hash.update(std::as_bytes(std::span(name)));
  }
  const std::string hex = hash.hex().substr(0, 16);
  std::uint64_t value = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
  return value;
}

}  // namespace millrace::pipeline::detail
