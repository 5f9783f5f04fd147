#include "tools/order_options.h"

#include <CLI/CLI.hpp>

#include "io/base/error.h"
#include "pipeline/slots.h"
#include "tools/help.h"
#include "tools/option_settings.h"

namespace millrace::tools {
namespace {

constexpr std::string_view kProcess = "process";

}  // namespace

void StreamOptions::declare(CLI::App& app) {
  add_count_of(app, "--streams", streams, kProcess, 0, pipeline::kMostStreams,
               "Streams that shards are divided into, over all processes: the order of the "
               "samples, for every number of processes that divides it; or N/process; 0: 4 for "
               "each process, or one per shard if there are fewer")
      ->type_name("N")
      ->check(may_change());
}

int StreamOptions::total() const { return streams.has_unit ? 0 : static_cast<int>(streams.number); }

wds::SplitOptions StreamOptions::split(std::size_t num_shards, const Topology& topology) const {
  return {.topology = topology,
          .workers = streams.has_unit && !is_open()
                         ? static_cast<int>(streams.number)
                         : wds::usual_workers(num_shards, topology.processes),
          .streams = total()};
}

void OrderOptions::declare(CLI::App& app) {
  app.add_option("--shuffle", shuffle.buffer_samples,
                 "Samples in each stream's shuffle buffer; 0: neither samples nor shards")
      ->transform(whole_number(0, std::uint64_t{1} << 32U))
      ->check(in_short_help());
  add_choice(app, "--order", shuffle.order, wds::kOrderWords,
             "The shuffle: millrace's own, WebDataset 1.0.2's bit for bit, or an exact permutation "
             "of all samples, which reads each by its place and uses no --shuffle buffer");
  app.add_option(
         "--open-shards", shuffle.open_shards,
         "Shards that each stream reads in turn, a sample each, so that shards of one class "
         "each are mixed")
      ->transform(whole_number(1, 1024));
  app.add_option("--shuffle-initial", shuffle.initial_samples,
                 "webdataset: samples gathered before the first, as shuffle(initial=)")
      ->transform(whole_number(1, std::uint64_t{1} << 32U));
  app.add_option("--shard-shuffle", shuffle.shard_buffer,
                 "webdataset: shards in each stream's buffer, as WebDataset(shardshuffle=); 0: the "
                 "whole list before its division, as SimpleShardList(seed=)")
      ->transform(whole_number(0, std::uint64_t{1} << 32U));
  app.add_flag("--detshuffle", shuffle.detshuffle,
               "webdataset: another order in each epoch, by seed + epoch");
  app.add_flag("--resampled", epochs.resampled,
               "Draw shards with replacement, without end, of a mix from each set: needs "
               "--epoch-samples");
  app.add_option("--epoch-samples", epochs.samples,
                 "Samples in an epoch: the shards are cut short or repeated; 0: every sample once")
      ->transform(whole_number(0));
  app.add_option("--repeat", epochs.passes,
                 "Times that an epoch reads the samples, of a mix those of each set, as "
                 "WebDataset's repeat(); 0: once, or as many as --epoch-samples takes; 1 with "
                 "--epoch-samples "
                 "only cuts, as slice()")
      ->transform(whole_number(0, 1 << 30));
  declare_range(app);
  declare_uneven(app);
}

void OrderOptions::declare_range(CLI::App& app, const std::string& prefix) {
  app.add_option("--" + prefix + "skip", range.skip,
                 "Leave out the first N samples, in the shards' order, before any shuffle")
      ->transform(whole_number(0))
      ->type_name("N");
  app.add_option("--" + prefix + "take", range.take,
                 "Take only the first N samples, of those not skipped; 0: all")
      ->transform(whole_number(0))
      ->type_name("N");
}

void OrderOptions::declare_uneven(CLI::App& app) {
  add_choice(app, "--uneven", uneven, pipeline::kUnevenWords,
             "Samples that do not fill a batch of every device: pad masks the other slots, partial "
             "makes each process's last batch as short as its samples, drop leaves them out "
             "everywhere, error refuses the epoch");
}

void OrderOptions::check() const {
  const bool webdataset = shuffle.order == wds::Order::kWebDataset;
  const wds::ShuffleOptions usual;
  require(webdataset || (shuffle.initial_samples == usual.initial_samples &&
                         shuffle.shard_buffer == usual.shard_buffer && !shuffle.detshuffle),
          "--shuffle-initial, --shard-shuffle and --detshuffle are for --order webdataset");
  require(shuffle.open_shards == 1 || shuffle.order == wds::Order::kMillrace,
          "--open-shards: only --order millrace reads several shards in turn");
  require(!epochs.resampled || epochs.samples > 0,
          "--resampled draws shards without end: --epoch-samples says how many make an epoch");
  require(!epochs.resampled || shuffle.order != wds::Order::kPermutation,
          "--resampled draws shards, --order permutation samples: use one of them");
  require(!epochs.resampled || epochs.passes == 0, "--repeat: --resampled shards have no end");
  const bool one_pass = epochs.passes == 1 || (epochs.passes == 0 && epochs.samples == 0);
  require(!shuffle.detshuffle || epochs.resampled || one_pass,
          "--detshuffle has an order for each epoch of one pass: --repeat 1");
  require(range.is_all() || (!epochs.resampled && !webdataset),
          "--skip and --take divide the samples: neither --resampled nor --order webdataset does");
}

void OrderOptions::apply(std::uint64_t seed, pipeline::PipelineOptions& options) const {
  options.shuffle = shuffle;
  options.shuffle.shards = shuffle.buffer_samples > 0;
  options.shuffle.seed = seed;
  options.range = range;
  options.epochs.samples = epochs.samples;
  options.epochs.passes = epochs.passes;
  options.epochs.resampled = epochs.resampled;
  options.batch.uneven = uneven;
}

}  // namespace millrace::tools
