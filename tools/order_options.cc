#include "tools/order_options.h"

#include <CLI/App.hpp>

#include "io/base/error.h"
#include "pipeline/slots.h"
#include "tools/help.h"
#include "tools/option_settings.h"
#include "wds/sample_selection.h"

namespace millrace::tools {
namespace {

constexpr std::string_view kProcess = "process";

/// `options` has one expression, whose name is the option's but for `prefix`.
void check_expression(const wds::ShuffleOptions& options, const std::string& prefix = "") {
  try {
    wds::check_selection(options);
  } catch (const Error& error) {
    throw Error(error.code(), "--" + prefix + error.message());
  }
}

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
  shuffle_.emplace("order", table(),
                   Choice<wds::ShuffleOptions>(wds::orders::Shuffled{.buffer = buffer_}));
  shuffle_
      ->declare(
          app,
          "The order of the samples: shuffled(5000), by a shuffle buffer of 5000 samples in each "
          "stream; webdataset, bit for bit that of WebDataset 1.0.2; permutation, a shuffle of "
          "the whole set, for which each sample is read from its offset",
          ComponentOption::Fields::kOfRun)
      ->check(in_short_help());
  app.add_flag("--resampled", chosen_.epochs.resampled,
               "Draw shards with replacement, without end, of a mix from each set: needs "
               "--epoch-samples");
  app.add_option("--epoch-samples", chosen_.epochs.samples,
                 "Samples in an epoch: the shards are cut short or repeated; 0: every sample once")
      ->transform(whole_number(0));
  app.add_option("--repeat", chosen_.epochs.passes,
                 "How often an epoch reads each sample (of a mix, of each set), as WebDataset's "
                 "repeat(); 0: once, or as often as --epoch-samples needs; 1 with --epoch-samples: "
                 "an epoch may end early, as with slice(), and no sample comes twice")
      ->transform(whole_number(0, 1 << 30));
  declare_range(app);
  declare_uneven(app);
  app.add_flag("--fill", chosen_.fill,
               "Replace samples that are skipped as damaged by the process's next ones, so that "
               "batches are full until the epoch's end; the number of batches stays the same");
}

void OrderOptions::declare_range(CLI::App& app, const std::string& prefix) {
  const std::string of = prefix.empty() ? "" : " of --val";
  app.add_option(
         "--" + prefix + "skip-samples", chosen_.range.skip,
         "Leave out the first N samples" + of + ", in the shards' order, before any shuffle")
      ->transform(whole_number(0))
      ->type_name("N");
  app.add_option("--" + prefix + "take-samples", chosen_.range.take,
                 "Read only the first N samples" + of + ", of those not skipped; 0: all")
      ->transform(whole_number(0))
      ->type_name("N");
}

void OrderOptions::declare_where(CLI::App& app, const std::string& prefix) {
  prefix_ = prefix;
  app.add_option("--" + prefix + "where", chosen_.shuffle.where,
                 "Keep samples by an expression over their key and small fields, and read nothing "
                 "else of the others: json.width >= 256 and json.score > 0.28")
      ->type_name("EXPRESSION");
}

void OrderOptions::declare_uneven(CLI::App& app) {
  add_choice(app, "--uneven", chosen_.uneven, pipeline::kUnevenWords,
             "What to do with the last samples of an epoch if they do not fill a batch of every "
             "device: pad, mask the empty slots, which repeat samples for batch norm's statistics; "
             "partial, shorten each process's last batch; drop, leave them out on every device; "
             "error, refuse the epoch");
}

/// By the names that they were given by, which the component that they belong to does not know.
void OrderOptions::check_expressions() const {
  check_expression({.where = shuffle_->given_text("where")});
  check_expression({.balance = shuffle_->given_text("balance")});
  check_expression({.weight = shuffle_->given_text("weight")});
}

void OrderOptions::settle() {
  if (shuffle_) {
    const bool chooses = shuffle_->is_given("where") || shuffle_->is_given("balance") ||
                         shuffle_->is_given("weight") || shuffle_->is_given("copies");
    check_expressions();
    if (chooses) shuffle_->set_usual(Choice<wds::ShuffleOptions>(wds::orders::Permutation{}));
    shuffle_->settle();
    chosen_.shuffle = *Choice<wds::ShuffleOptions>(shuffle_->component()).make();
  } else if (!chosen_.shuffle.where.empty()) {
    check_expression({.where = chosen_.shuffle.where}, prefix_);
    chosen_.shuffle.order = wds::Order::kPermutation;
  }
  check();
}

void OrderOptions::check() const {
  const auto& [shuffle, epochs, range, uneven, fill] = chosen_;
  require(!epochs.resampled || epochs.samples > 0,
          "--resampled draws shards without end: --epoch-samples says how many make an epoch");
  require(!epochs.resampled || shuffle.order != wds::Order::kPermutation,
          "--resampled draws shards, --order permutation samples: use one of them");
  require(!epochs.resampled || epochs.passes == 0, "--repeat: --resampled shards have no end");
  const bool one_pass = epochs.passes == 1 || (epochs.passes == 0 && epochs.samples == 0);
  require(!shuffle.detshuffle || epochs.resampled || one_pass,
          "--detshuffle has an order for each epoch of one pass: --repeat 1");
  require(range.is_all() || (!epochs.resampled && shuffle.order != wds::Order::kWebDataset),
          "--skip-samples and --take-samples divide the samples: neither --resampled nor --order "
          "webdataset does");
}

void SampleOrder::apply(std::uint64_t seed, pipeline::PipelineOptions& options) const {
  options.shuffle = shuffle;
  options.shuffle.shards = shuffle.buffer_samples > 0;
  options.shuffle.seed = seed;
  options.range = range;
  options.epochs.samples = epochs.samples;
  options.epochs.passes = epochs.passes;
  options.epochs.resampled = epochs.resampled;
  options.batch.uneven = uneven;
  options.batch.fill = fill;
}

}  // namespace millrace::tools
