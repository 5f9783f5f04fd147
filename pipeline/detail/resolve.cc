#include "pipeline/detail/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "decode/decoded_cache.h"
#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/machine.h"
#include "io/base/text.h"
#include "io/http_options.h"
#include "pipeline/batch_fields.h"
#include "pipeline/epoch_length.h"
#include "pipeline/slots.h"
#include "wds/sample_access.h"
#include "wds/sample_selection.h"
#include "wds/split.h"

namespace millrace::pipeline::detail {
namespace {

void check_batches(const PipelineOptions& options) {
  // A slot has a key and a mask besides its fields.
  constexpr std::int64_t kMostSlots = std::int64_t{1} << 24;
  const BatchOptions& batch = options.batch;
  require(batch.size > 0 && batch.size <= kMostSlots,
          fmt::format("batch size {}: from 1 to {}", batch.size, kMostSlots));
  require(!options.fields.empty(), "a pipeline needs at least one field");
  const EpochOptions& epochs = options.epochs;
  require(epochs.first <= kMaxEpoch, fmt::format("epochs.first is at most {}", kMaxEpoch));
  require(epochs.samples >= 0 && epochs.batches >= 0,
          "an epoch's samples and batches must not be negative");
  require(!epochs.resampled || epochs.samples > 0 || epochs.batches > 0,
          "resampled shards have no end: set the samples or batches of an epoch");
}

void check_passes(const PipelineOptions& options) {
  const EpochOptions& epochs = options.epochs;
  require(epochs.passes == 0 || !epochs.resampled,
          "resampled shards have no end: there are no passes over them");
  const wds::ShuffleOptions& shuffle = options.shuffle;
  const bool one_pass = epochs.passes == 1 || (epochs.passes == 0 && epochs.samples == 0);
  require(shuffle.order != wds::Order::kWebDataset || !shuffle.detshuffle || one_pass ||
              epochs.resampled,
          "detshuffle has an order for each epoch of one pass: WebDataset would draw one for each "
          "pass, counted over all epochs");
}

/// Calls the user's splitters now, because they may leave a stream without shards.
void check_splitters(const PipelineOptions& options) {
  require(!options.epochs.resampled,
          "resampling draws from all shards: it cannot be combined with splitters");
  wds::StreamSpec spec = stream_spec(options);
  for (const int stream : owned_streams(options)) {
    spec.stream = stream;
    static_cast<void>(wds::stream_shards(spec));
  }
}

void check_split(const PipelineOptions& options) {
  if (options.split.process_splitter || options.split.worker_splitter) {
    check_splitters(options);
  } else if (!options.epochs.resampled && !options.found.counts) {
    wds::check_enough_shards(options.shards.size(), options.split);
  }
}

/// Refuses options that are for shards only.
void check_source(const PipelineOptions& options) {
  const wds::ShuffleOptions& shuffle = options.shuffle;
  require(options.shards.empty(), "a pipeline has shards or a source, not both");
  require(options.joins.empty(), "only shards are joined, not a source");
  require(!shuffle.shards && shuffle.buffer_samples == 0 && shuffle.open_shards == 1 &&
              shuffle.order == wds::Order::kMillrace,
          "shuffle: a source has an order of its own, and only the seed applies to it");
  require(!options.split.process_splitter && !options.split.worker_splitter &&
              !options.epochs.resampled && options.epochs.passes == 0 && !options.indexed,
          "splitters, resampling, passes and indexes are for shards, not for a source");
}

/// What every mix must have; whether its counts are known is check_counts()'s.
void check_mix(const PipelineOptions& options) {
  const MixOptions& mix = options.mix;
  if (mix.parts.empty()) return;
  std::vector<double> weights;
  std::size_t shards = 0;
  for (const MixOptions::Part& part : mix.parts) {
    require(part.num_shards > 0, "a set of a mix has no shards");
    weights.push_back(part.weight);
    shards += part.num_shards;
  }
  static_cast<void>(wds::whole_weights(weights));
  require(shards == options.shards.size(), "a mix's sets must have all shards between them");
  const wds::ShuffleOptions& shuffle = options.shuffle;
  require(shuffle.order != wds::Order::kWebDataset,
          "a mix has millrace's own order or permutations, not webdataset's");
  require(!options.split.process_splitter && !options.split.worker_splitter,
          "splitters are not for a mix: its sets are divided by their samples");
  require(!options.epochs.resampled || mix.end == wds::MixEnd::kStop,
          "sets of a mix that are resampled have no end: there is nothing to repeat or drop then");
}

void check_seeds(const PipelineOptions& options) {
  const int seeded_for = options.shuffle.seed_processes;
  require(seeded_for == 0 || (seeded_for > 0 && options.split.streams % seeded_for == 0),
          fmt::format("seeds of {} processes: {} streams do not divide among them", seeded_for,
                      options.split.streams));
}

void check_counts(const PipelineOptions& options) {
  require(options.mix.parts.empty() || options.found.counts || options.epochs.resampled,
          "a mix needs the number of samples in each shard: index them, or let them be scanned");
  require(!options.found.counts || options.found.counts->size() == options.shards.size(),
          "counts: there must be one number per shard");
}

void check_shuffle(const wds::ShuffleOptions& shuffle) {
  constexpr int kMostOpen = 1024;
  require(
      shuffle.buffer_samples >= 0,
      fmt::format("shuffle buffer of {} samples: must not be negative", shuffle.buffer_samples));
  require(shuffle.open_shards >= 1 && shuffle.open_shards <= kMostOpen,
          fmt::format("open shards {}: from 1 to {}", shuffle.open_shards, kMostOpen));
  require(shuffle.open_shards == 1 || shuffle.order == wds::Order::kMillrace,
          "open shards: only millrace's own order reads several in turn");
  require(!shuffle.chooses() || shuffle.order == wds::Order::kPermutation,
          "where, balance and weight choose samples by their place: only a permutation does");
  require(shuffle.copies >= 1, fmt::format("copies {}: at least 1", shuffle.copies));
  require(shuffle.copies == 1 || shuffle.order == wds::Order::kPermutation,
          "copies of a sample follow each other: only a permutation has them");
}

void check_threads(const char* what, int threads) {
  require(threads >= 0 && threads <= kMaxThreads,
          fmt::format("{} {}: from 0 to {}", what, threads, kMaxThreads));
}

void check_resources(const ResourceOptions& resources) {
  constexpr int kMostReady = 1 << 16;
  const AutotuneOptions& autotune = resources.autotune;
  check_threads("threads", resources.threads);
  check_threads("I/O threads", resources.io_threads);
  check_threads("autotune: at most threads", autotune.most_threads);
  check_threads("autotune: at most I/O threads", autotune.most_io_threads);
  require(resources.prefetch > 0 && resources.prefetch <= kMostReady,
          fmt::format("prefetch {}: from 1 to {}", resources.prefetch, kMostReady));
  require(autotune.interval.count() >= 0, "autotune: the interval must not be negative");
  const auto check_most = [](const char* what, int first, int most) {
    require(most == 0 || most >= std::max(first, 1),
            fmt::format("autotune: {} {} at first and at most {}", first, what, most));
  };
  check_most("threads", resources.threads, autotune.most_threads);
  check_most("I/O threads", resources.io_threads, autotune.most_io_threads);
}

/// Fills in the numbers of threads.
void resolve_threads(ResourceOptions& resources, int streams) {
  constexpr int kUsualReaders = 16;
  constexpr int kMostReaders = 64;
  constexpr int kMostOfCores = 4;
  AutotuneOptions& autotune = resources.autotune;
  const auto open = [](int given, int usual, int most) {
    return given > 0 ? given : std::max(usual, most);
  };
  const int cores = usable_cores();
  if (autotune.most_threads == 0)
    autotune.most_threads = open(resources.threads, cores, kMostOfCores * cores);
  if (autotune.most_io_threads == 0)
    autotune.most_io_threads = open(resources.io_threads, kUsualReaders, kMostReaders);
  if (resources.threads == 0) resources.threads = std::min(cores, autotune.most_threads);
  if (resources.io_threads == 0)
    resources.io_threads = std::min(kUsualReaders, autotune.most_io_threads);
  resources.io_threads = std::min(resources.io_threads, streams);
  autotune.most_io_threads = std::min(autotune.most_io_threads, streams);
}

constexpr std::size_t kMiB = std::size_t{1024} * 1024;
/// Held by a stream's reader besides its blocks: the network's or the tar reader's buffer.
constexpr std::size_t kNetworkReaderBytes = 5 * kMiB;
constexpr std::size_t kFileReaderBytes = kMiB;

bool any_on_network(const std::vector<std::string>& shards) {
  return std::any_of(shards.begin(), shards.end(), io::is_network_url);
}

std::size_t reader_bytes(const std::vector<std::string>& shards) {
  return any_on_network(shards) ? kNetworkReaderBytes : kFileReaderBytes;
}

/// What all readers of distant shards share for what is in flight ahead of them.
std::size_t ahead_bytes(const PipelineOptions& options) {
  const bool network = any_on_network(options.shards) ||
                       std::any_of(options.joins.begin(), options.joins.end(), any_on_network);
  return network ? io::HttpOptions{}.ahead_bytes : 0;
}

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// Rounds being filled: enough for every thread to have a block, within some 16 MiB.
std::int64_t rounds_in_work(const PipelineOptions& options, std::size_t batch_bytes) {
  constexpr std::size_t kEnoughBytes = 16 * kMiB;
  const std::int64_t devices = options.split.topology.devices;
  const auto block = static_cast<std::int64_t>(wds::SampleBlock::kMaxSamples);
  const std::int64_t for_threads =
      divide_up(options.resources.threads * block, options.batch.size * devices);
  const std::size_t round_bytes = batch_bytes * static_cast<std::size_t>(devices);
  const auto for_memory =
      static_cast<std::int64_t>(std::max<std::size_t>(1, kEnoughBytes / round_bytes));
  return 1 + std::min(for_threads, for_memory);
}

/// The consumer has a round in hand and, until the next one is handed out whole, each device's last
/// batch: a masked one would repeat it.
std::int64_t batches_held(std::int64_t permits, std::int64_t devices) {
  return (permits + 1) * devices + devices - 1;
}

/// Where a permutation's samples lie, in memory.
std::size_t contents_bytes(const PipelineOptions& options) {
  constexpr std::size_t kIndexedBytes = 256;
  constexpr std::size_t kScannedBytes = 4;
  std::size_t bytes = 0;
  if (!options.found.contents) return bytes;
  for (const auto& shard : options.found.contents->shards)
    bytes += shard.count() * (shard.index ? kIndexedBytes : kScannedBytes);
  if (options.found.selection) bytes += options.found.selection->num_bytes();
  return bytes;
}

/// Readers of joined shards and what is known of these, for each reader of a shard.
std::size_t join_bytes(const PipelineOptions& options) {
  constexpr std::size_t kEntryBytes = 256;
  std::uint64_t most = 0;
  if (options.found.counts && !options.found.counts->empty())
    most = *std::max_element(options.found.counts->begin(), options.found.counts->end());
  std::size_t bytes = 0;
  for (const std::vector<std::string>& list : options.joins)
    bytes += reader_bytes(list) + most * kEntryBytes;
  return bytes;
}

std::size_t decoded_bytes(const PipelineOptions& options) {
  return options.resources.decoded ? options.resources.decoded->memory_bytes() : 0;
}

/// The parts of the sum that shrink() does not reduce.
std::size_t fixed_bytes(const PipelineOptions& options, std::size_t streams) {
  const bool permutes = options.shuffle.order == wds::Order::kPermutation;
  const bool shuffles = options.shuffle.buffer_samples > 1 && !permutes;
  // A permutation has up to sixteen readers with a quarter of the buffer each.
  const std::size_t sets = std::max<std::size_t>(1, options.mix.parts.size());
  const auto readers = sets * static_cast<std::size_t>(permutes ? 4 : options.shuffle.open_shards);
  // Of a mix of permutations, each set's block waits for the others' samples.
  const std::size_t blocks = permutes && sets > 1 ? sets * wds::SampleBlock::kMaxBytes : 0;
  return streams * (readers * (reader_bytes(options.shards) + join_bytes(options)) + blocks +
                    (shuffles ? options.shuffle.buffer_bytes : 0)) +
         ahead_bytes(options) + contents_bytes(options) + decoded_bytes(options);
}

std::size_t bound(const MemoryShares& plan, std::size_t fixed, std::size_t streams,
                  std::size_t batch_bytes) {
  constexpr std::size_t kBlock = wds::SampleBlock::kMaxBytes;
  const auto blocks =
      static_cast<std::size_t>(std::max(plan.first.read_ahead, plan.most.read_ahead));
  return fixed + streams * blocks * kBlock + plan.decode_bytes + kBlock +
         static_cast<std::size_t>(plan.num_batches) * batch_bytes;
}

/// Reduces one part of the plan; false if all are at their minimum.
bool shrink(MemoryShares& plan, std::int64_t devices, std::int64_t least_permits) {
  if (plan.permits == least_permits + 1 && plan.first.read_ahead > 1) {
    --plan.first.read_ahead;
  } else if (plan.permits == least_permits + 1 && plan.decode_bytes > kMiB) {
    plan.decode_bytes = kMiB;
  } else if (plan.permits > least_permits) {
    --plan.permits;
  } else {
    return false;
  }
  plan.num_batches = batches_held(plan.permits, devices);
  return true;
}

/// What may be tuned: threads as far as options say, and read-ahead as far as memory allows.
/// `used`: the sum without it.
void raise_limits(const PipelineOptions& options, std::size_t streams, std::size_t used,
                  MemoryShares& plan) {
  constexpr std::size_t kUsualBytes = 128 * kMiB;
  constexpr std::size_t kMostBlocks = 64;
  const std::size_t budget = options.resources.memory_budget_bytes;
  const std::size_t left = budget > used ? std::min(budget - used, kUsualBytes)
                           : budget == 0 ? kUsualBytes
                                         : 0;
  const auto first = static_cast<std::size_t>(plan.first.read_ahead);
  const std::size_t blocks = first + left / (streams * wds::SampleBlock::kMaxBytes);
  plan.most = {.readers = options.resources.autotune.most_io_threads,
               .decode_threads = options.resources.autotune.most_threads,
               .read_ahead = static_cast<int>(std::min(blocks, kMostBlocks))};
}

}  // namespace

PipelineOptions resolve_options(PipelineOptions options) {
  check_values(options);
  if (options.source) check_source(options);
  check_mix(options);
  require(options.source || !options.shards.empty(), "no shards");
  options.split.streams = wds::num_streams(options.split);
  require(options.split.streams <= kMostStreams,
          fmt::format("{} streams: at most {}", options.split.streams, kMostStreams));
  check_seeds(options);
  options = with_counts(std::move(options));
  check_counts(options);
  check_ranges(options);
  check_repeats(options);
  check_even(options);
  if (!options.source) check_split(options);
  ResourceOptions& resources = options.resources;
  resolve_threads(resources, static_cast<int>(owned_streams(options).size()));
  if (!options.opener) options.opener = std::make_shared<io::UrlOpener>();
  return options;
}

std::vector<int> owned_streams(const PipelineOptions& options) {
  return wds::streams_of_process(options.split);
}

EpochOptions resolve_epochs(const PipelineOptions& options) {
  EpochOptions epochs = options.epochs;
  const bool drops = options.batch.uneven == Uneven::kDrop;
  if (drops && (options.split.topology.world_size() > 1 || options.batch.fill))
    epochs.batches = batches_per_epoch(options).value_or(0);
  return epochs;
}

std::int64_t least_batches(const PipelineOptions& options) {
  const bool promises = options.split.topology.processes > 1 || options.batch.fill;
  const bool pads = promises && options.batch.uneven != Uneven::kDrop;
  return pads ? batches_per_epoch(options).value_or(0) : resolve_epochs(options).batches;
}

std::string base_name(const std::string& url) {
  const std::string path = io::printable_url(url);
  return path.substr(path.find_last_of('/') + 1);
}

// Neither processes nor the batch size are among them, unless whose a stream is decides what is in
// it: others continue where these stopped.
namespace {

/// "1000 from 500"; "from 500".
std::string range_text(const wds::SampleRange& range) {
  return range.take == 0 ? fmt::format("from {}", range.skip)
                         : fmt::format("{} from {}", range.take, range.skip);
}

/// The same of any set of a mix.
bool mix_passes_go_on(const PipelineOptions& options, wds::StreamSpec spec) {
  if (!options.found.counts || options.mix.end != wds::MixEnd::kRepeat) return false;
  spec.max_samples = 1;
  spec.passes = 0;
  auto counts = options.found.counts->begin();
  for (const MixOptions::Part& part : options.mix.parts) {
    const auto end = counts + static_cast<std::ptrdiff_t>(part.num_shards);
    spec.found.counts = std::make_shared<const std::vector<std::uint64_t>>(counts, end);
    spec.range = part.range;
    if (wds::passes_go_on(spec)) return true;
    counts = end;
  }
  return false;
}

/// "7 of 12 shards, 3 of 4 shards, stop".
std::string mix_text(const MixOptions& mix) {
  std::vector<double> weights;
  for (const MixOptions::Part& part : mix.parts) weights.push_back(part.weight);
  const auto whole = wds::whole_weights(weights);
  std::string text;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    text += fmt::format("{} of {}", whole[i], counted(mix.parts[i].num_shards, "shard"));
    if (!mix.parts[i].range.is_all()) text += " (" + range_text(mix.parts[i].range) + ")";
    text += ", ";
  }
  return text + word_of(mix.end, wds::kMixEndWords);
}

/// A file of weights by what is in it, wherever it lies; by its path as long as it is not read.
std::string weight_text(const PipelineOptions& options) {
  const std::string& weight = options.shuffle.weight;
  if (!wds::is_weights_file(weight) || !options.found.selection) return weight;
  return std::string(kOfWeightsFile) + options.found.selection->weights_sha256();
}

/// Whether streams have other samples than their share of one pass, pass after pass.
bool passes_go_on(const PipelineOptions& options) {
  if (options.source || options.found.selection) return false;
  wds::StreamSpec spec = stream_spec(options);
  if (!options.mix.parts.empty()) return mix_passes_go_on(options, spec);
  spec.max_samples = static_cast<std::uint64_t>(options.epochs.samples);
  if (!wds::passes_go_on(spec)) return false;
  const std::uint64_t all =
      std::accumulate(options.found.counts->begin(), options.found.counts->end(), std::uint64_t{0});
  return global_samples_per_epoch(options).value_or(0) >
         static_cast<std::int64_t>(options.range.of(all));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> order_options(const PipelineOptions& options) {
  const wds::ShuffleOptions& shuffle = options.shuffle;
  const wds::SplitOptions& split = options.split;
  const auto text = [](const auto& value) { return fmt::format("{}", value); };
  const std::int64_t processes = split.topology.processes;
  std::vector<std::pair<std::string, std::string>> list = {
      {"streams", text(wds::num_streams(split))},
      {"shuffle-shards", text(shuffle.shards)},
      {"shuffle", text(shuffle.buffer_samples)},
      {"shuffle-bytes", text(shuffle.buffer_bytes)},
      {"shuffle-initial", text(shuffle.initial_samples)},
      {"shuffle-seed", text(shuffle.seed)},
      {"order", word_of(shuffle.order, wds::kOrderWords)},
      {"shard-buffer", text(shuffle.shard_buffer)},
      {"detshuffle", text(shuffle.detshuffle)},
      {"epoch-samples", text(options.epochs.samples)},
      {"epoch-slots", text(options.epochs.batches * options.batch.size * processes)},
      {"resampled", text(options.epochs.resampled)}};
  if (split.process_splitter || split.worker_splitter)
    list.emplace_back("processes", text(processes));
  else if (const int seeded_for = seed_processes(options); seeded_for > 0)
    list.emplace_back("processes", text(seeded_for));
  // Only where it is used, so that positions from before there was a choice still fit.
  if (shuffle.open_shards != 1) list.emplace_back("open-shards", text(shuffle.open_shards));
  if (options.epochs.passes > 0) list.emplace_back("passes", text(options.epochs.passes));
  if (options.source) list.emplace_back("source", options.source->name());
  if (!options.range.is_all()) list.emplace_back("samples", range_text(options.range));
  for (const auto& [name, value] :
       {std::pair("where", shuffle.where), std::pair("balance", shuffle.balance),
        std::pair("weight", weight_text(options))})
    if (!value.empty()) list.emplace_back(name, value);
  if (const auto& chosen = options.found.selection)
    list.emplace_back(kSelection,
                      fmt::format("{} ({})", counted(chosen->kept(), "sample"), chosen->digest()));
  if (shuffle.copies != 1) list.emplace_back("copies", text(shuffle.copies));
  if (!options.mix.parts.empty()) list.emplace_back("mix", mix_text(options.mix));
  if (passes_go_on(options)) list.emplace_back(kLaterPasses, "dealt on from the pass before");
  return list;
}

namespace {

std::string short_digest(const std::string& text) {
  constexpr std::size_t kShown = 8;
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex().substr(0, kShown);
}

}  // namespace

std::shared_ptr<const std::vector<std::pair<std::string, std::string>>> order_facts(
    const PipelineOptions& options) {
  auto facts = order_options(options);
  std::string names;
  for (const std::string& shard : options.shards) names += base_name(shard) + '\n';
  facts.emplace_back("shards",
                     fmt::format("{} (names {})", options.shards.size(), short_digest(names)));
  if (options.found.counts) {
    const auto& counts = *options.found.counts;
    facts.emplace_back(
        "samples of the shards",
        fmt::format("{} ({})", std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}),
                    short_digest(fmt::format("{}", fmt::join(counts, " ")))));
  }
  return std::make_shared<const decltype(facts)>(std::move(facts));
}

namespace {

using NamedOptions = std::vector<std::pair<std::string, std::string>>;

std::uint64_t fingerprint_of(const NamedOptions& list, const PipelineOptions& options) {
  std::string text;
  for (const auto& [name, value] : list) text += fmt::format("{} {}\n", name, value);
  if (options.found.counts) text += fmt::format("|{}", fmt::join(*options.found.counts, " "));
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

}  // namespace

std::uint64_t order_fingerprint(const PipelineOptions& options) {
  return fingerprint_of(order_options(options), options);
}

std::uint64_t earlier_fingerprint(const PipelineOptions& options) {
  NamedOptions list = order_options(options);
  std::erase_if(list, [](const auto& option) { return option.first == kLaterPasses; });
  return fingerprint_of(list, options);
}

std::uint64_t unselected_fingerprint(const PipelineOptions& options) {
  NamedOptions list = order_options(options);
  std::erase_if(list, [](const auto& option) { return option.first == kSelection; });
  for (auto& [name, value] : list)
    if (name == "weight") value = options.shuffle.weight;
  return fingerprint_of(list, options);
}

std::int64_t set_samples(const PipelineOptions& options) {
  if (options.source) return options.source->num_samples().value_or(0);
  if (!options.found.counts) return 0;
  std::uint64_t sum = 0;
  if (options.mix.parts.empty())
    return static_cast<std::int64_t>(options.range.of(std::accumulate(
        options.found.counts->begin(), options.found.counts->end(), std::uint64_t{0})));
  auto counts = options.found.counts->begin();
  for (const MixOptions::Part& part : options.mix.parts) {
    const auto end = counts + static_cast<std::ptrdiff_t>(part.num_shards);
    sum += part.range.of(std::accumulate(counts, end, std::uint64_t{0}));
    counts = end;
  }
  return static_cast<std::int64_t>(sum);
}

std::optional<std::int64_t> promised_samples(const PipelineOptions& options) {
  if (options.source && options.faults.on_fault != wds::OnFault::kFail) return {};
  return samples_per_epoch(options);
}

namespace {

/// Buffers that the machine cannot hold would end the process long after it has started.
void check_machine(std::int64_t num_batches, std::size_t buffer_bytes) {
  const std::uint64_t memory = usable_memory();
  if (buffer_bytes <= memory / static_cast<std::uint64_t>(num_batches)) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} batches of {} bytes are more than the memory of this {}, {} bytes: "
                          "smaller batches, less prefetch or a memory budget are needed",
                          num_batches, buffer_bytes,
                          memory_limit() == memory ? "process's cgroup" : "machine", memory));
}

}  // namespace

MemoryShares share_memory(const PipelineOptions& options, const BatchLayout& layout) {
  const std::size_t batch_bytes =
      std::max<std::size_t>(layout.num_bytes() + layout.ragged_bytes(), 1);
  const std::size_t streams = owned_streams(options).size();
  const std::size_t fixed = fixed_bytes(options, streams);
  const std::size_t decoded = decoded_bytes(options);
  const std::size_t budget = options.resources.memory_budget_bytes;
  const std::int64_t devices = options.split.topology.devices;
  const std::int64_t held = options.batch.fill ? 1 : 0;  // a round that waits to be filled
  MemoryShares plan{.permits = divide_up(options.resources.prefetch, devices) +
                               rounds_in_work(options, batch_bytes) + held,
                    .decode_bytes = static_cast<std::size_t>(options.resources.threads) * 2 * kMiB,
                    .first = {.readers = options.resources.io_threads,
                              .decode_threads = options.resources.threads,
                              .read_ahead = 2}};
  plan.num_batches = batches_held(plan.permits, devices);
  const auto sum = [&] { return bound(plan, fixed, streams, batch_bytes); };
  while (budget > 0 && sum() > budget && shrink(plan, devices, 1 + held)) continue;
  plan.most = plan.first;
  if (options.resources.autotune.on) raise_limits(options, streams, sum(), plan);
  plan.bound_bytes = sum();
  check_machine(plan.num_batches, layout.num_bytes());
  if (budget > 0 && plan.bound_bytes > budget) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("a memory budget of {} bytes is too small: the minimum is {} bytes, for {} "
                    "batches of {} bytes, {} streams of {} bytes and 2 MiB for decoding{}",
                    budget, plan.bound_bytes, plan.num_batches, batch_bytes, streams,
                    (fixed - decoded) / streams + wds::SampleBlock::kMaxBytes,
                    decoded > 0 ? fmt::format(", and {} bytes of decoded pictures", decoded) : ""));
  }
  return plan;
}

}  // namespace millrace::pipeline::detail

namespace millrace::pipeline {

void check_values(const PipelineOptions& options) {
  detail::check_batches(options);
  detail::check_passes(options);
  detail::check_resources(options.resources);
  detail::check_shuffle(options.shuffle);
  const bool splits = options.split.process_splitter || options.split.worker_splitter;
  require(
      options.shuffle.order != wds::Order::kPermutation || (!splits && !options.epochs.resampled),
      "a permutation is of single samples: neither splitters nor resampling with it");
}

}  // namespace millrace::pipeline
