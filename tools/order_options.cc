#include "tools/order_options.h"

#include <CLI/CLI.hpp>

#include "io/base/error.h"
#include "io/base/words.h"
#include "pipeline/slots.h"
#include "tools/option_settings.h"
#include "tools/values.h"

namespace millrace::tools {

void StreamOptions::declare(CLI::App& app) {
  app.add_option("--workers", workers,
                 "Streams that shards are divided into; 0: 4, or one per shard if there are fewer")
      ->transform(whole_number(0, pipeline::kMostStreams))
      ->check(may_change());
  app.add_option("--streams", streams,
                 "The same over all processes: the order of the samples for every number of them "
                 "that divides it, and of each device's if all devices divide it; 0: by --workers")
      ->transform(whole_number(0, pipeline::kMostStreams))
      ->check(may_change());
}

void StreamOptions::check() const {
  require(workers == 0 || streams == 0, "--workers and --streams are two names for one thing");
}

wds::SplitOptions StreamOptions::split(std::size_t num_shards, const Topology& topology) const {
  return {.topology = topology,
          .workers = workers > 0 ? workers : wds::usual_workers(num_shards, topology.processes),
          .streams = streams};
}

void OrderOptions::declare(CLI::App& app) {
  app.add_option("--shuffle", shuffle,
                 "Samples in each stream's shuffle buffer; 0: neither samples nor shards")
      ->transform(whole_number(0, std::uint64_t{1} << 32U));
  app.add_option("--order", order,
                 "The shuffle: millrace's own, WebDataset 1.0.2's bit for bit, or an exact "
                 "permutation of all samples, which reads each by its place and uses no --shuffle "
                 "buffer")
      ->transform(one_of(names_of(wds::kOrderWords)));
  app.add_option(
         "--open-shards", open_shards,
         "Shards that each stream reads in turn, a sample each, so that shards of one class "
         "each are mixed")
      ->transform(whole_number(1, 1024));
  app.add_option("--shuffle-initial", shuffle_initial,
                 "webdataset: samples gathered before the first, as shuffle(initial=)")
      ->transform(whole_number(1, std::uint64_t{1} << 32U));
  app.add_option("--shard-shuffle", shard_shuffle,
                 "webdataset: shards in each stream's buffer, as WebDataset(shardshuffle=); 0: the "
                 "whole list before its division, as SimpleShardList(seed=)")
      ->transform(whole_number(0, std::uint64_t{1} << 32U));
  app.add_flag("--detshuffle", detshuffle,
               "webdataset: another order in each epoch, by seed + epoch");
  app.add_flag("--resampled", resampled,
               "Draw shards with replacement, without end: needs --epoch-samples");
  app.add_option("--epoch-samples", epoch_samples,
                 "Samples in an epoch: the shards are cut short or repeated; 0: every sample once")
      ->transform(whole_number(0));
  app.add_option("--passes", passes,
                 "Passes over the samples in an epoch, as WebDataset's repeat(); 0: one, or as "
                 "many as --epoch-samples takes; 1 with --epoch-samples only cuts, as slice()")
      ->transform(whole_number(0, 1 << 30));
  declare_range(app);
  declare_uneven(app);
}

void OrderOptions::declare_range(CLI::App& app, const std::string& prefix) {
  app.add_option("--" + prefix + "skip", skip,
                 "Leave out the first N samples, in the shards' order, before any shuffle")
      ->transform(whole_number(0))
      ->type_name("N");
  app.add_option("--" + prefix + "take", take,
                 "Take only the first N samples, of those not skipped; 0: all")
      ->transform(whole_number(0))
      ->type_name("N");
}

void OrderOptions::declare_uneven(CLI::App& app) {
  app.add_option("--uneven", uneven,
                 "Samples that do not fill a batch of every device: pad masks the other slots, "
                 "drop leaves them out everywhere, error refuses the epoch")
      ->transform(one_of(names_of(pipeline::kUnevenWords)));
  app.add_flag("--drop-last", drop_last, "The same as --uneven drop");
  app.add_flag("--partial", partial,
               "A process's last batch is as short as its samples, instead of full and masked");
}

void OrderOptions::check() const {
  const bool webdataset = wds_order() == wds::Order::kWebDataset;
  const OrderOptions usual;
  require(webdataset || (shuffle_initial == usual.shuffle_initial &&
                         shard_shuffle == usual.shard_shuffle && !detshuffle),
          "--shuffle-initial, --shard-shuffle and --detshuffle are for --order webdataset");
  require(open_shards == 1 || wds_order() == wds::Order::kMillrace,
          "--open-shards: only --order millrace reads several shards in turn");
  require(!resampled || epoch_samples > 0,
          "--resampled draws shards without end: --epoch-samples says how many make an epoch");
  require(!resampled || wds_order() != wds::Order::kPermutation,
          "--resampled draws shards, --order permutation samples: use one of them");
  require(!resampled || passes == 0, "--passes: there are none over --resampled shards");
  require(!detshuffle || resampled || passes == 1 || (passes == 0 && epoch_samples == 0),
          "--detshuffle has an order for each epoch of one pass: --passes 1");
  require((skip == 0 && take == 0) || (!resampled && !webdataset),
          "--skip and --take divide the samples: neither --resampled nor --order webdataset does");
  require(!drop_last || uneven != "error", "--drop-last is --uneven drop, not error");
  require(!partial || (uneven == "pad" && !drop_last),
          "--partial is a way to pad: it goes with neither --uneven drop nor error");
}

wds::Order OrderOptions::wds_order() const { return value_of("--order", order, wds::kOrderWords); }

void OrderOptions::apply(std::uint64_t seed, pipeline::PipelineOptions& options) const {
  options.shuffle = {.shards = shuffle > 0,
                     .buffer_samples = shuffle,
                     .open_shards = open_shards,
                     .initial_samples = shuffle_initial,
                     .seed = seed,
                     .order = wds_order(),
                     .shard_buffer = shard_shuffle,
                     .detshuffle = detshuffle};
  options.range = {.skip = skip, .take = take};
  options.epochs.samples = epoch_samples;
  options.epochs.passes = passes;
  options.epochs.resampled = resampled;
  options.batch.partial = partial;
  options.batch.uneven =
      drops() ? pipeline::Uneven::kDrop : value_of("--uneven", uneven, pipeline::kUnevenWords);
}

}  // namespace millrace::tools
