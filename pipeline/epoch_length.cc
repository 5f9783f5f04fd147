#include "pipeline/epoch_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "io/base/text.h"
#include "io/local_path.h"
#include "io/opener.h"
#include "pipeline/detail/first_shards.h"
#include "pipeline/sample_source.h"
#include "pipeline/slots.h"
#include "wds/indexes_ahead.h"
#include "wds/sample_access.h"
#include "wds/sample_counts.h"
#include "wds/sample_selection.h"
#include "wds/split.h"

namespace millrace::pipeline {
namespace {

bool divides_samples(const PipelineOptions& options) {
  return !options.split.process_splitter && !options.split.worker_splitter &&
         !options.epochs.resampled && options.shuffle.order == wds::Order::kMillrace;
}

bool scans(const PipelineOptions& options) {
  return options.scan && !options.faults.require_index &&
         std::all_of(options.shards.begin(), options.shards.end(), io::can_reopen);
}

bool is_complete(const std::vector<std::optional<std::uint64_t>>& counts) {
  return std::none_of(counts.begin(), counts.end(), [](const auto& one) { return !one; });
}

using Found = std::vector<std::optional<std::uint64_t>>;

void say_once(PipelineOptions& options, const std::string& kind, const std::string& line) {
  if (!options.faults.said) options.faults.said = std::make_shared<wds::SaidWarnings>();
  options.faults.said->warn(options.log, kind, line);
}

/// So that the streams' first shards are read by what was fetched to count them.
void keep_first_indexes(PipelineOptions& options) {
  options.opener = std::make_shared<const wds::IndexesAhead>(std::move(options.opener),
                                                             detail::first_shards(options));
}

/// The counts by indexes, where there are any.
Found look_up(PipelineOptions& options) {
  std::optional<Error> damage;
  const auto ask = [&](const std::string& shard, const Error& fault) {
    const auto& listed = options.faults.samples_of;
    const auto count = listed ? listed(shard) : std::nullopt;
    if (!count && !damage) damage = fault;
    return count;
  };
  const bool network =
      std::any_of(options.shards.begin(), options.shards.end(), io::is_network_url);
  if (network) keep_first_indexes(options);
  Found found = wds::indexed_counts(
      *options.opener, options.shards, options.stop,
      options.faults.require_index ? wds::OnDamagedIndex() : wds::OnDamagedIndex(ask),
      options.found.first_indexes.get());
  if (damage && !scans(options)) {
    const std::string kind = "an index is damaged, so whole shards are divided into streams";
    say_once(options, kind, kind + ": " + damage->what());
  }
  // Without indexes, a request for one at every shard would be a wasted round trip.
  const bool none = std::none_of(found.begin(), found.end(), [](const auto& one) { return one; });
  if (network && !damage && (none || (!is_complete(found) && !scans(options))))
    options.indexed = false;
  return found;
}

wds::ScanOptions scan_options(const PipelineOptions& options) {
  return {.lenient = options.faults.lenient,
          .concatenated = options.faults.concatenated,
          .cache = options.scan_cache,
          .fail = options.faults.on_fault == wds::OnFault::kFail,
          .stop = options.stop,
          .log = options.log};
}

/// Fills in the counts of shards that have no index.
void scan(PipelineOptions& options, Found& found) {
  std::vector<bool> wanted;
  for (const auto& count : found) wanted.push_back(!count);
  options.found.scans =
      wds::scan_shards(*options.opener, options.shards, wanted, scan_options(options));
  if (!options.found.scans) return;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (wanted[i]) found[i] = (*options.found.scans)[i]->count;
}

/// Samples of each process in the first epoch when whole shards are divided; empty where a shard's
/// count is unknown.
std::vector<std::uint64_t> undivided_samples(const PipelineOptions& options) {
  std::map<std::string, std::uint64_t> counts;
  for (const std::string& shard : options.shards) {
    const auto count = options.faults.samples_of ? options.faults.samples_of(shard) : std::nullopt;
    if (!count) return {};
    counts[shard] = *count;
  }
  wds::StreamSpec spec = stream_spec(options);
  const int processes = options.split.topology.processes;
  const int stripe = wds::stream_stripe(options.split);
  std::vector<std::uint64_t> samples(static_cast<std::size_t>(processes));
  for (; spec.stream < spec.num_streams; ++spec.stream) {
    const int process = wds::process_of(static_cast<std::uint64_t>(spec.stream), stripe, processes);
    for (const std::string& shard : wds::stream_shards(spec))
      samples[static_cast<std::size_t>(process)] += counts[shard];
  }
  return samples;
}

/// What it costs that nothing is scanned, where that is known.
void say_cost(PipelineOptions& options) {
  if (options.scan || wds::num_streams(options.split) == 1) return;
  const auto step = static_cast<std::uint64_t>(
      std::max<std::int64_t>(1, options.batch.size * options.split.topology.devices));
  std::string cost = "how many slots will be masked is unknown";
  if (const auto samples = undivided_samples(options); !samples.empty()) {
    const std::uint64_t most = *std::max_element(samples.begin(), samples.end());
    const std::uint64_t slots = (most + step - 1) / step * step * samples.size();
    const auto all = std::accumulate(samples.begin(), samples.end(), std::uint64_t{0});
    cost = fmt::format(
        "{:.1f} % of the epoch's slots will be masked",
        slots == 0 ? 0.0 : 100.0 * static_cast<double>(slots - all) / static_cast<double>(slots));
  }
  const std::string kind = "without a scan whole shards are divided into streams";
  say_once(options, kind,
           kind + ": the order is another for every number of processes, and " + cost);
}

void find_counts(PipelineOptions& options) {
  if (!options.opener) options.opener = std::make_shared<io::UrlOpener>();
  Found found(options.shards.size());
  if (options.indexed) found = look_up(options);
  if (!is_complete(found) && scans(options)) scan(options, found);
  if (!is_complete(found)) return say_cost(options);
  auto counts = std::make_shared<std::vector<std::uint64_t>>();
  for (const auto& count : found) counts->push_back(*count);
  options.found.counts = std::move(counts);
}

/// `samples`, `passes` times, at least once; the most that there can be if that is more.
std::uint64_t times(std::uint64_t samples, std::uint32_t passes) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max() / 2;
  const std::uint64_t often = std::max<std::uint32_t>(1, passes);
  return samples > kMost / often ? kMost : samples * often;
}

/// Where the samples of a set of the mix are among all.
struct Stretch {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// `first`: the set's first shard.
Stretch stretch_of(const PipelineOptions& options, std::size_t first,
                   const MixOptions::Part& part) {
  const auto shards = options.found.counts->begin() + static_cast<std::ptrdiff_t>(first);
  const std::uint64_t before =
      std::accumulate(options.found.counts->begin(), shards, std::uint64_t{0});
  const std::uint64_t all = std::accumulate(
      shards, shards + static_cast<std::ptrdiff_t>(part.num_shards), std::uint64_t{0});
  return {before + part.range.skip, part.range.of(all)};
}

/// Of a pass over a set of the mix.
std::uint64_t samples_of_part(const PipelineOptions& options, std::size_t first,
                              const MixOptions::Part& part) {
  const Stretch own = stretch_of(options, first, part);
  const auto& selection = options.found.selection;
  return selection ? selection->kept_in(own.first, own.count) : own.count;
}

/// Of an epoch of the mix, where EpochOptions::samples does not say it.
std::int64_t mixed_samples(const PipelineOptions& options) {
  std::vector<double> weights;
  std::vector<std::uint64_t> samples;
  std::size_t first = 0;
  for (const MixOptions::Part& part : options.mix.parts) {
    weights.push_back(part.weight);
    samples.push_back(times(samples_of_part(options, first, part), options.epochs.passes));
    first += part.num_shards;
  }
  return static_cast<std::int64_t>(
      wds::mix_length(weights, samples, wds::num_streams(options.split), options.mix.end));
}

/// Of all passes through the streams; nullopt where unknown.
std::optional<std::int64_t> samples_of_passes(const PipelineOptions& options) {
  if (options.source) return options.source->num_samples();
  if (!options.found.counts) return {};
  if (!options.mix.parts.empty()) return mixed_samples(options);
  if (options.found.selection)
    return static_cast<std::int64_t>(
        times(options.found.selection->draws(), options.epochs.passes));
  const std::uint64_t own = options.range.of(std::accumulate(
      options.found.counts->begin(), options.found.counts->end(), std::uint64_t{0}));
  return static_cast<std::int64_t>(times(own, options.epochs.passes));
}

/// What all streams give in an epoch, where that is known.
std::optional<std::int64_t> samples_of_epoch(const PipelineOptions& options) {
  const EpochOptions& epochs = options.epochs;
  const auto all = samples_of_passes(options);
  if (!all && (epochs.samples == 0 || epochs.passes > 0)) return {};
  if (!all) return epochs.samples;
  if (epochs.samples == 0 || *all == 0) return all;
  return repeats_samples(options) ? epochs.samples : std::min(*all, epochs.samples);
}

/// What the streams give in an epoch, where that is known: streams differ by one sample at most.
std::optional<std::int64_t> samples_of(const PipelineOptions& options,
                                       const std::vector<int>& streams) {
  const auto all = samples_of_epoch(options);
  if (!all) return {};
  std::uint64_t samples = 0;
  for (const int stream : streams)
    samples += stream_share(*all, wds::num_streams(options.split), stream);
  return static_cast<std::int64_t>(samples);
}

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// "2 processes x 4 devices x batch size 32".
std::string set_up(const PipelineOptions& options) {
  const Topology& topology = options.split.topology;
  const auto number = [](int value, const char* noun) {
    return counted(static_cast<std::uint64_t>(value), noun) + " x ";
  };
  return (topology.processes > 1 ? number(topology.processes, "process") : std::string()) +
         number(topology.devices, "device") + fmt::format("batch size {}", options.batch.size);
}

/// The batch size next to the given one with which the epoch divides; 0 where none is near.
std::int64_t even_batch_size(const PipelineOptions& options, std::int64_t samples) {
  const std::int64_t world = options.split.topology.world_size();
  const auto divides = [&](std::int64_t size) { return size > 0 && samples % (world * size) == 0; };
  for (std::int64_t away = 1; away <= options.batch.size / 2; ++away) {
    if (divides(options.batch.size - away)) return options.batch.size - away;
    if (divides(options.batch.size + away)) return options.batch.size + away;
  }
  return 0;
}

std::string uneven_text(const PipelineOptions& options, std::int64_t samples) {
  const std::int64_t global = global_batch_size(options);
  const std::int64_t size = even_batch_size(options, samples);
  const std::int64_t below = samples / global * global;
  const std::int64_t near =
      below > 0 && samples - below <= below + global - samples ? below : below + global;
  return fmt::format(
      "an epoch of {} leaves {} over from global batches of {} ({}): nearest that divide are {}an "
      "epoch of {} samples",
      counted(static_cast<std::uint64_t>(samples), "sample"), samples % global, global,
      set_up(options), size > 0 ? fmt::format("batch size {} and ", size) : "", near);
}

/// Of what is looked at before the first epoch.
wds::FaultLedger first_ledger(PipelineOptions& options) {
  if (!options.faults.said) options.faults.said = std::make_shared<wds::SaidWarnings>();
  return wds::FaultLedger(options.faults, options.log);
}

/// Where every sample lies, for the order that reads them by their place.
void find_places(PipelineOptions& options) {
  wds::FaultLedger ledger = first_ledger(options);
  if (!options.opener) options.opener = std::make_shared<io::UrlOpener>();
  options.found.contents = wds::find_contents(*options.opener, options.shards,
                                              {.indexed = options.indexed,
                                               .scanned = scans(options),
                                               .scan = scan_options(options),
                                               .ledger = &ledger});
  auto counts = std::make_shared<std::vector<std::uint64_t>>();
  for (const auto& shard : options.found.contents->shards) counts->push_back(shard.count());
  options.found.counts = std::move(counts);
}

/// Where each set of a mix begins, and where it ends.
std::vector<std::uint64_t> mix_borders(const PipelineOptions& options) {
  std::vector<std::uint64_t> borders;
  std::uint64_t before = 0;
  std::size_t first = 0;
  for (const MixOptions::Part& part : options.mix.parts) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < part.num_shards; ++i)
      count += options.found.contents->shards[first + i].count();
    borders.push_back(before + std::min(part.range.skip, count));
    borders.push_back(borders.back() + part.range.of(count));
    before += count;
    first += part.num_shards;
  }
  return borders;
}

/// Which of them an epoch draws, and how often.
void choose_samples(PipelineOptions& options) {
  const wds::ShuffleOptions& wanted = options.shuffle;
  const EpochOptions& epochs = options.epochs;
  const std::uint64_t count = options.range.of(options.found.contents->count);
  wds::FaultLedger ledger = first_ledger(options);
  options.found.selection = wds::find_selection(
      *options.opener, options.found.contents, wanted,
      {.first = std::min(options.range.skip, options.found.contents->count),
       .count = count,
       .draws = epochs.passes == 0 ? static_cast<std::uint64_t>(epochs.samples) : 0,
       .borders = mix_borders(options),
       .ledger = &ledger,
       .has_joins = !options.joins.empty(),
       .stop = options.stop});
  if (!wanted.where.empty())
    options.log.info(fmt::format("where '{}' keeps {} of {}", printable(wanted.where, 200),
                                 options.found.selection->kept(), counted(count, "sample")));
  std::size_t first = 0;
  for (const MixOptions::Part& part : options.mix.parts) {
    if (samples_of_part(options, first, part) == 0)
      throw Error(ErrorCode::kInvalidArgument,
                  wanted.where.empty()
                      ? "no sample of a set of the mix is left"
                      : fmt::format("where '{}' keeps no sample of a set of the mix",
                                    printable(wanted.where, 200)),
                  {.url = options.shards[first]});
    first += part.num_shards;
  }
}

/// In `count` shards of the list behind `first`, all of which are known.
std::uint64_t samples_in(const PipelineOptions& options, std::size_t first, std::size_t count) {
  const auto begin = options.found.counts->begin() + static_cast<std::ptrdiff_t>(first);
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), std::uint64_t{0});
}

/// What damage has cost is for the epoch's ledger to say.
void check_any_sample(const PipelineOptions& options) {
  if (!options.found.counts) return;
  const auto is_damaged = [](const auto& scan) { return scan && scan->damage; };
  const auto& scans = options.found.scans;
  if (scans && std::ranges::any_of(*scans, is_damaged)) return;
  if (samples_in(options, 0, options.shards.size()) > 0) return;
  throw Error(ErrorCode::kNotFound,
              fmt::format("no sample in {}", counted(options.shards.size(), "shard")),
              {.url = options.shards.front()});
}

void check_range(std::uint64_t samples, const wds::SampleRange& range) {
  require(samples == 0 || range.of(samples) > 0,
          fmt::format("{} to skip leave nothing of {}", range.skip, counted(samples, "sample")));
}

/// Where every sample lies, and which are drawn.
void find_samples(PipelineOptions& options) {
  if (!options.found.contents) find_places(options);
  check_any_sample(options);
  if (!options.found.selection && options.shuffle.chooses()) choose_samples(options);
}

/// A mix ends with its first set, unless it is to repeat.
void say_if_shorter(PipelineOptions& options) {
  const auto samples = samples_of_epoch(options);
  if (options.mix.parts.empty() || !samples || *samples >= options.epochs.samples) return;
  const std::string kind = "an epoch of the mix is shorter than asked for";
  say_once(options, kind,
           fmt::format("{}: {} of {}, where its first set ends (--mix-end repeat, "
                       "MixEnd::kRepeat)",
                       kind, *samples,
                       counted(static_cast<std::uint64_t>(options.epochs.samples), "sample")));
}

}  // namespace

PipelineOptions with_counts(PipelineOptions options) {
  if (!options.joins.empty() && !options.found.joins)
    options.found.joins = std::make_shared<const wds::Joins>(
        options.shards, options.joins,
        options.shuffle.order == wds::Order::kPermutation ? wds::Joins::Keep::kAll
                                                          : wds::Joins::Keep::kOpen);
  if (!options.source && options.shuffle.order == wds::Order::kPermutation) {
    find_samples(options);
    say_if_shorter(options);
    return options;
  }
  if (options.source || !divides_samples(options)) {
    options.found.counts = nullptr;
    options.found.scans = nullptr;
    return options;
  }
  if (!options.found.counts) find_counts(options);
  check_any_sample(options);
  say_if_shorter(options);
  return options;
}

std::int64_t global_batch_size(const PipelineOptions& options) {
  return options.split.topology.world_size() * options.batch.size;
}

bool repeats_samples(const PipelineOptions& options) {
  const EpochOptions& epochs = options.epochs;
  if (epochs.resampled) return true;
  return epochs.passes == 0 &&
         (options.mix.parts.empty() || options.mix.end == wds::MixEnd::kRepeat);
}

std::optional<std::int64_t> global_samples_per_epoch(const PipelineOptions& options) {
  return samples_of_epoch(options);
}

std::uint64_t filtered_per_epoch(const PipelineOptions& options) {
  const auto& selection = options.found.selection;
  if (!selection || options.mix.parts.empty()) return selection ? selection->filtered() : 0;
  std::uint64_t filtered = 0;
  std::size_t first = 0;
  for (const MixOptions::Part& part : options.mix.parts) {
    const Stretch own = stretch_of(options, first, part);
    filtered += selection->filtered_in(own.first, own.count);
    first += part.num_shards;
  }
  return filtered;
}

std::optional<std::int64_t> samples_per_epoch(const PipelineOptions& options) {
  return samples_of(options, wds::streams_of_process(options.split));
}

std::optional<std::int64_t> steps_per_epoch(const PipelineOptions& options) {
  const std::int64_t devices = options.split.topology.devices;
  if (options.epochs.batches > 0) return divide_up(options.epochs.batches, devices);
  const auto samples = global_samples_per_epoch(options);
  if (!samples) return {};
  const std::int64_t global = global_batch_size(options);
  return options.batch.uneven == Uneven::kDrop ? *samples / global : divide_up(*samples, global);
}

std::optional<std::int64_t> batches_per_epoch(const PipelineOptions& options) {
  if (options.epochs.batches > 0) return options.epochs.batches;
  const auto steps = steps_per_epoch(options);
  if (!steps) return {};
  return *steps * options.split.topology.devices;
}

Error wrong_samples(const EpochSamples& samples, const Topology& topology) {
  std::string text = fmt::format("epoch {} has {} where {} were promised", samples.epoch,
                                 counted(samples.found, "sample"), samples.promised);
  if (const std::uint64_t lost = samples.lost.promised(); lost > 0)
    text += fmt::format(", and faults have cost {}", lost);
  if (topology.processes > 1)
    text += fmt::format(" (process {} of {})", topology.process, topology.processes);
  return {samples.found < samples.promised ? ErrorCode::kTruncated : ErrorCode::kCorrupt,
          text,
          {.stage = "pipeline"}};
}

void check_ranges(const PipelineOptions& options) {
  const auto is_all = [](const MixOptions::Part& part) { return part.range.is_all(); };
  if (options.range.is_all() && std::ranges::all_of(options.mix.parts, is_all)) return;
  require(options.mix.parts.empty() || options.range.is_all(),
          "of a mix, what is skipped and taken is said of each set");
  require(!options.source, "samples are skipped and taken from shards, not from a source");
  require(options.found.counts != nullptr,
          "to skip and take samples, the number in each shard must be known, by an index or a "
          "scan, and the samples divided: neither resampling, splitters nor webdataset's order");
  if (!options.range.is_all())
    check_range(samples_in(options, 0, options.shards.size()), options.range);
  std::size_t first = 0;
  for (const MixOptions::Part& part : options.mix.parts) {
    check_range(samples_in(options, first, part.num_shards), part.range);
    first += part.num_shards;
  }
}

void check_repeats(const PipelineOptions& options) {
  const std::int64_t streams = wds::num_streams(options.split);
  if (options.source && options.epochs.samples > 0) {
    const auto own = options.source->num_samples();
    require(!own || *own >= std::min(streams, options.epochs.samples),
            fmt::format("an epoch of {} samples in {} streams cannot be made of the source's {}: a "
                        "stream repeats its own samples, and some have none",
                        options.epochs.samples, streams, *own));
  }
  if (!options.found.counts || options.mix.end != wds::MixEnd::kRepeat) return;
  std::size_t first = 0;
  for (const MixOptions::Part& part : options.mix.parts) {
    require(part.range.of(samples_in(options, first, part.num_shards)) > 0,
            "a set of the mix has no sample to repeat: that of " +
                io::printable_url(options.shards[first]));
    first += part.num_shards;
  }
}

void check_even(const PipelineOptions& options) {
  const Uneven uneven = options.batch.uneven;
  const bool masks = uneven == Uneven::kPad || uneven == Uneven::kPartial;
  if (masks || options.epochs.batches > 0) return;
  const auto samples = global_samples_per_epoch(options);
  const std::int64_t global = global_batch_size(options);
  if (uneven == Uneven::kDrop) {
    require(!samples || *samples >= global,
            fmt::format("an epoch of {} is dropped whole: a global batch has {} ({})",
                        counted(static_cast<std::uint64_t>(*samples), "sample"), global,
                        set_up(options)));
    return;
  }
  require(samples.has_value(),
          "whether an epoch divides by the global batch is not known: index the shards, or say how "
          "many samples it has");
  require(*samples % global == 0, uneven_text(options, *samples));
}

}  // namespace millrace::pipeline
