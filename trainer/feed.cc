#include "trainer/feed.h"

#include <chrono>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/opener.h"
#include "pipeline/epoch_length.h"

namespace millrace::trainer {
namespace {

pipeline::PipelineOptions of_devices(pipeline::PipelineOptions options,
                                     const device::DeviceSet& devices) {
  options.split.topology.devices = static_cast<int>(devices.size());
  // What limits a run, its devices know: the one that waits for the pipeline here lands batches.
  options.resources.autotune.advises = false;
  return options;
}

std::string cut_text(std::string text) {
  if (text.size() > SkippedSample::kMostText)
    text = text.substr(0, SkippedSample::kMostText) + "...";
  return text;
}

SkippedSample skipped_sample(const wds::FaultLedger::Entry& entry) {
  SkippedSample one{.shard = cut_text(io::printable_url(entry.where.url)),
                    .key = cut_text(entry.where.key),
                    .member = cut_text(entry.where.member),
                    .fault = std::string(error_code_name(entry.code)),
                    .reason = cut_text(entry.message),
                    .samples = static_cast<std::int64_t>(entry.samples)};
  if (entry.where.offset) one.offset = static_cast<std::int64_t>(*entry.where.offset);
  return one;
}

std::vector<SkippedSample> first_skips(const wds::FaultLedger& ledger) {
  std::vector<SkippedSample> skips;
  for (const wds::FaultLedger::Entry& entry : ledger.entries()) {
    if (skips.size() == SkippedSample::kMost) break;
    skips.push_back(skipped_sample(entry));
  }
  return skips;
}

}  // namespace

class LoaderFeed::Epoch final : public EpochFeed {
 public:
  Epoch(device::ParallelLoader& loader, std::uint32_t epoch, const wds::FaultPolicy& faults,
        Reported& reported, bool& whole)
      : loader_(loader),
        epoch_(epoch),
        faults_(faults),
        reported_(reported),
        whole_(whole),
        after_(loader.size()) {}

  bool next(int replica, pipeline::Batch& batch) override {
    const bool more = loader_[static_cast<std::size_t>(replica)].next(batch);
    if (more) after_[static_cast<std::size_t>(replica)] = batch.position;
    // All replicas see the end; one of them records it.
    if (!more && replica == 0) whole_ = true;
    return more;
  }
  void stop() override { loader_.stop(); }
  bool drops_uneven() const override {
    return loader_.pipeline().options().batch.uneven == pipeline::Uneven::kDrop;
  }
  std::string busiest_stage() const override {
    return loader_.pipeline().statistics().verdict().stage;
  }
  std::string advice() const override { return loader_.pipeline().statistics().about_pictures(); }
  std::int64_t skipped_samples() const override {
    const pipeline::Position* cut = where_cut();
    return static_cast<std::int64_t>(cut ? cut->account().num_skipped() : ledger()->skipped());
  }
  ReadSamples read_samples() const override {
    const auto its_ledger = loader_.ledger_of(epoch_);
    if (!its_ledger) return {};
    return {.read = static_cast<std::int64_t>(its_ledger->read()),
            .skipped = static_cast<std::int64_t>(its_ledger->skipped())};
  }
  wds::FaultPolicy fault_policy() const override { return faults_; }
  std::int64_t refetched() const override {
    return static_cast<std::int64_t>(ledger()->refetched());
  }
  InputReport report() override {
    const Reported before =
        std::exchange(reported_, {.statistics = loader_.pipeline().statistics(), .waits = waits()});
    InputReport report{.stages = stages_since(before.statistics)};
    report.requests = static_cast<std::int64_t>(reported_.waits.batches - before.waits.batches);
    report.ready = static_cast<std::int64_t>(reported_.waits.ready - before.waits.ready);
    const pipeline::Position::Account all = account();
    report.emitted = static_cast<std::int64_t>(all.emitted);
    for (const auto& [code, samples] : all.skipped)
      report.faults[std::string(error_code_name(code))] = static_cast<std::int64_t>(samples);
    const auto its_ledger = ledger();
    report.filtered = static_cast<std::int64_t>(its_ledger->filtered());
    report.skips = first_skips(*its_ledger);
    return report;
  }

 private:
  /// Of all devices.
  device::WaitStatistics waits() const {
    device::WaitStatistics sum;
    for (std::size_t place = 0; place < loader_.size(); ++place) {
      const device::WaitStatistics one = loader_[place].waits();
      sum.batches += one.batches;
      sum.ready += one.ready;
    }
    return sum;
  }

  std::vector<InputStage> stages_since(const pipeline::Statistics& before) const {
    using Seconds = std::chrono::duration<double>;
    std::vector<InputStage> stages;
    for (const auto& stage : reported_.statistics.since(before).stages)
      stages.push_back({.name = stage.name,
                        .samples = static_cast<std::int64_t>(stage.items),
                        .bytes = static_cast<std::int64_t>(stage.bytes),
                        .busy = Seconds(stage.busy).count(),
                        .waiting = Seconds(stage.waiting).count(),
                        .threads = stage.threads});
    return stages;
  }

  /// Behind the last batch of an epoch that ends before its input does: the ledger has what was
  /// read ahead too. Null if all of the epoch was read, or nothing.
  const pipeline::Position* where_cut() const {
    const pipeline::Position* last = nullptr;
    for (const auto& one : after_)
      if (one && (last == nullptr || one->slots > last->slots)) last = one.get();
    return whole_ ? nullptr : last;
  }

  pipeline::Position::Account account() const {
    if (const pipeline::Position* cut = where_cut()) return cut->account();
    const auto all = ledger();
    pipeline::Position::Account account{.emitted = all->emitted()};
    for (const wds::FaultLedger::Entry& entry : all->entries())
      account.skipped[entry.code] += entry.samples;
    return account;
  }

  /// The epoch's own; of one without a batch that of the last one.
  std::shared_ptr<const wds::FaultLedger> ledger() const {
    if (auto its_own = loader_.ledger_of(epoch_)) return its_own;
    const auto ended = loader_[0].ledger();
    return ended ? ended : loader_.pipeline().ledger();
  }

  device::ParallelLoader& loader_;
  const std::uint32_t epoch_;
  const wds::FaultPolicy& faults_;
  Reported& reported_;
  bool& whole_;
  /// The positions behind each replica's last batch.
  std::vector<std::shared_ptr<const pipeline::Position>> after_;
};

LoaderFeed::LoaderFeed(pipeline::PipelineOptions options, const device::DeviceSet& devices,
                       const device::LoaderOptions& loader)
    : options_(pipeline::with_counts(of_devices(std::move(options), devices))),
      devices_(devices),
      loader_options_(loader) {
  pipeline::check_repeats(options_);
  pipeline::check_even(options_);
}

LoaderFeed::~LoaderFeed() = default;

void LoaderFeed::start(std::uint32_t epoch, const pipeline::Position* from) {
  loader_.reset();
  pipeline::PipelineOptions options = options_;
  options.epochs.first = epoch;
  options.epochs.count = end_epoch_ > epoch ? static_cast<std::uint32_t>(end_epoch_ - epoch) : 0;
  // A share of what all processes read: one of them may well be beyond it alone.
  if (options.split.topology.processes > 1) options.faults.max_fault_rate = 1.0;
  options.resume = from == nullptr ? nullptr : std::make_shared<pipeline::Position>(*from);
  loader_ = std::make_unique<device::ParallelLoader>(pipeline::Pipeline(std::move(options)),
                                                     devices_, loader_options_);
  reported_ = {.statistics = loader_->pipeline().statistics(), .waits = {}};
}

void LoaderFeed::set_landing(const device::Landing& landing) {
  if (landing.stays == loader_options_.landing.stays) return;
  loader_options_.landing = landing;
  whole_ = false;  // what was read ahead has landed otherwise
}

std::unique_ptr<EpochFeed> LoaderFeed::open(std::uint32_t epoch, const pipeline::Position* from) {
  const bool continues = loader_ != nullptr && whole_ && next_epoch_ == epoch && from == nullptr &&
                         !(*loader_)[0].finished();
  if (!continues) start(epoch, from);
  whole_ = false;
  next_epoch_ = epoch + 1;
  return std::make_unique<Epoch>(*loader_, epoch, options_.faults, reported_, whole_);
}

std::optional<pipeline::DataIdentity> LoaderFeed::identity() const {
  if (!identity_) identity_ = pipeline::identify(options_);
  return identity_;
}

std::int64_t LoaderFeed::steps_per_epoch() const {
  return pipeline::steps_per_epoch(options_).value_or(0);
}

const pipeline::Pipeline* LoaderFeed::pipeline() const {
  return loader_ == nullptr ? nullptr : &loader_->pipeline();
}

}  // namespace millrace::trainer
