#include "tools/train/step_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/local_path.h"
#include "tools/scan.h"

namespace millrace::tools {
namespace {

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

bool is_local(const std::string& shard) { return io::local_path(shard).has_value(); }

/// The steps of a run's epochs, by the options.
class StepCount {
 public:
  /// Borrows them; `train_samples` as settle_steps().
  StepCount(const TrainCommandOptions& options, std::int64_t train_samples,
            const CommandContext& context)
      : options_(options), train_samples_(train_samples), stop_(context.stop) {}

  /// From the epoch's number of samples, else by reading the shards if they are local.
  std::int64_t of_epoch(const Log& log) const {
    if (options_.limits.fast_dev_run) return 1;
    const std::int64_t samples = train_samples_ > 0 ? train_samples_ : scanned_samples();
    const std::int64_t steps = std::max<std::int64_t>(1, steps_of_batches(batches_of(samples)));
    log.info(fmt::format("{} make {} per epoch",
                         counted(static_cast<std::uint64_t>(samples), "sample"),
                         counted(static_cast<std::uint64_t>(steps), "step")));
    return steps;
  }

  /// Of the whole run, if a warm-up depends on them and they, or an upper limit, are known from
  /// options or indexes. Never from the shards' location, so that a run over HTTP equals the run
  /// from disk. 0: unknown.
  std::int64_t of_run() const {
    const OptimisationOptions& optimisation = options_.optimisation;
    if (!optimisation.has_default_warmup()) return 0;
    return optimisation.epochs * most_of_epoch();
  }

 private:
  std::int64_t most_of_epoch() const {
    if (options_.optimisation.steps_per_epoch > 0) return options_.optimisation.steps_per_epoch;
    if (train_samples_ <= 0 && options_.data.fake <= 0)
      return steps_of_batches(options_.limits.train_batches);
    return of_epoch({});
  }

  std::int64_t steps_of_batches(std::int64_t batches) const {
    return divide_up(batches, options_.optimisation.accumulate);
  }

  /// Of each device.
  std::int64_t batches_of(std::int64_t samples) const {
    const std::int64_t global = options_.run.topology.world_size() * options_.run.batch_size;
    const bool drops = options_.data.order.chosen().uneven == pipeline::Uneven::kDrop;
    const std::int64_t batches = drops ? samples / global : divide_up(samples, global);
    const std::int64_t most = options_.limits.train_batches;
    return most > 0 ? std::min(batches, most) : batches;
  }

  std::int64_t scanned_samples() const {
    const auto shards = options_.train_shards();
    if (!std::ranges::all_of(shards, is_local))
      throw Error(ErrorCode::kInvalidArgument,
                  "the schedule needs the number of steps in an epoch: give --steps-per-epoch or "
                  "--epoch-samples, or index the shards");
    wds::FaultLedger ledger(unlogged(options_.read.policy()));
    std::int64_t samples = 0;
    scan({.shards = shards,
          .opener = *options_.read.network.opener(),
          .ledger = ledger,
          .stop = stop_},
         [&](const wds::Sample&) { return ++samples > 0; });
    return samples;
  }

  const TrainCommandOptions& options_;
  std::int64_t train_samples_;
  std::stop_token stop_;
};

std::int64_t decide_number(trainer::Cluster& cluster,
                           const std::function<std::int64_t()>& decision) {
  return std::stoll(trainer::decide(cluster, [&] { return std::to_string(decision()); }));
}

}  // namespace

void settle_steps(TrainCommandOptions& options, const trainer::Model& model,
                  std::int64_t train_samples, trainer::Cluster& cluster,
                  const CommandContext& context) {
  OptimisationOptions& optimisation = options.optimisation;
  const StepCount count(options, train_samples, context);
  if (optimisation.needs_steps_per_epoch() && optimisation.steps_per_epoch == 0)
    optimisation.steps_per_epoch =
        decide_number(cluster, [&] { return count.of_epoch(context.log); });
  optimisation.settle(model, options.samples_per_step(),
                      decide_number(cluster, [&] { return count.of_run(); }));
}

}  // namespace millrace::tools
