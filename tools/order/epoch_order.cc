#include "tools/order/epoch_order.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "pipeline/epoch_length.h"
#include "pipeline/sample_source.h"
#include "pipeline/slots.h"
#include "wds/split.h"

namespace millrace::tools {
namespace {

/// Slots that are made at once: enough for each thread to be busy for a while.
constexpr std::size_t kSlotsAtOnce = std::size_t{1} << 15U;

}  // namespace

EpochOrder::EpochOrder(const pipeline::PipelineOptions& options, const Place& place,
                       wds::FaultLedger& ledger, const std::stop_token& stop)
    : options_(options),
      place_(place),
      stripe_(wds::stream_stripe(options.split)),
      arena_(place.threads),
      source_(pipeline::source_of(options)) {
  const Topology& topology = options_.split.topology;
  const std::int64_t slots_of_row = std::int64_t{topology.processes} * stripe_;
  std::int64_t rows = static_cast<std::int64_t>(kSlotsAtOnce) / slots_of_row + 1;
  if (place_.limit > 0)
    rows = std::min(rows, static_cast<std::int64_t>(place_.limit) / slots_of_row + 1);
  if (options_.batch.size > 0) {
    pipeline::check_even(options_);
    rows_of_step_ = options_.batch.size * topology.devices / stripe_;
    if (const auto steps = pipeline::steps_per_epoch(options_)) rows_ = *steps * rows_of_step_;
    // Whether a step is left out is known at its end.
    rows = (rows + rows_of_step_ - 1) / rows_of_step_ * rows_of_step_;
  }
  rows_at_once_ = static_cast<std::size_t>(rows);
  open(ledger, stop);
}

// If the number of steps is unknown, it depends on the other processes' samples.
void EpochOrder::open(wds::FaultLedger& ledger, const std::stop_token& stop) {
  wds::SplitOptions split = options_.split;
  pipeline::SampleSource::Request request{
      .num_streams = wds::num_streams(split),
      .epoch = place_.epoch,
      .seed = options_.shuffle.seed,
      .keys_only = ledger.policy().on_fault == wds::OnFault::kFail,
      .ledger = std::shared_ptr<wds::FaultLedger>(std::shared_ptr<void>(), &ledger),
      .stop = stop};
  const bool all = !place_.process || (rows_of_step_ > 0 && !rows_);
  const int first = all ? 0 : *place_.process;
  const int end = all ? split.topology.processes : first + 1;
  for (int process = first; process < end; ++process) {
    processes_.push_back({.process = process});
    processes_.back().last_steps.assign(static_cast<std::size_t>(split.topology.devices), -1);
    split.topology.process = process;
    for (const int stream : wds::streams_of_process(split)) {
      request.stream = stream;
      request.max_samples =
          pipeline::stream_share(options_.epochs.samples, request.num_streams, stream);
      Stream& own = processes_.back().streams.emplace_back();
      own.number = stream;
      own.samples = source_->open(request);
      own.ended = options_.epochs.samples > 0 && request.max_samples == 0;
    }
  }
}

std::span<const OrderedSlot> EpochOrder::next() {
  forget_used();
  slots_.clear();
  while (!ended_ && slots_.empty()) {
    for (std::size_t row = 0; row < rows_at_once_ && !ended_; ++row) ended_ = !add_row();
    if (ended_) check_number();
    keep_own();
  }
  return slots_;
}

/// The epoch must have the samples that a run would be promised. Where a step is left out, its
/// streams need not have ended.
void EpochOrder::check_number() {
  pipeline::EpochSamples samples{.epoch = place_.epoch};
  for (Process& process : processes_) {
    for (Stream& stream : process.streams) {
      if (stream.ready == 0 && !stream.ended) refill();
      if (!stream.ended && options_.batch.uneven == pipeline::Uneven::kDrop) return;
      samples.found += stream.found;
      samples.lost += stream.samples->position().lost;
    }
  }
  const auto promised = promised_samples();
  if (!promised) return;
  samples.promised = static_cast<std::uint64_t>(*promised);
  if (!samples.add_up()) throw pipeline::wrong_samples(samples, options_.split.topology);
}

/// Of the processes whose streams are read.
std::optional<std::int64_t> EpochOrder::promised_samples() const {
  pipeline::PipelineOptions options = options_;
  if (processes_.size() > 1) return pipeline::global_samples_per_epoch(options);
  options.split.topology.process = processes_.front().process;
  return pipeline::samples_per_epoch(options);
}

/// What the last slots were made of.
void EpochOrder::forget_used() {
  for (Process& process : processes_) {
    for (Stream& stream : process.streams) {
      const auto begin = stream.blocks.begin();
      stream.blocks.erase(begin, begin + static_cast<std::ptrdiff_t>(stream.block));
      stream.block = 0;
    }
  }
}

/// The next slots of each process; false at the end.
bool EpochOrder::add_row() {
  if (rows_ && row_ == *rows_) return false;
  const bool begins_step = rows_of_step_ > 0 && row_ % rows_of_step_ == 0;
  if (begins_step) {
    step_begin_ = slots_.size();
    step_is_short_ = false;
  }
  const std::size_t before = slots_.size();
  bool any = false;
  for (Process& process : processes_)
    for (std::int64_t i = 0; i < stripe_; ++i) any = add_slot(process, row_ * stripe_ + i) || any;
  if (!any && (rows_of_step_ == 0 || (begins_step && !rows_))) {
    slots_.resize(before);
    return false;
  }
  ++row_;
  const bool ends_step = rows_of_step_ > 0 && row_ % rows_of_step_ == 0;
  const bool drops = !rows_ && options_.batch.uneven == pipeline::Uneven::kDrop;
  if (!ends_step || !drops || !step_is_short_) return true;
  slots_.resize(step_begin_);
  return false;
}

/// The slot at `place` among those of the process. Returns whether a sample is in it.
bool EpochOrder::add_slot(Process& process, std::int64_t place) {
  const Topology& topology = options_.split.topology;
  const std::int64_t before = (row_ * topology.processes + process.process) * stripe_;
  OrderedSlot slot{.slot = static_cast<std::uint64_t>(before + place % stripe_),
                   .step = rows_of_step_ > 0 ? row_ / rows_of_step_ + 1 : 0};
  slot.sample = take(process, slot.stream);
  std::int64_t& last_step = process.last_steps[static_cast<std::size_t>(place % topology.devices)];
  if (slot.sample != nullptr) {
    last_step = slot.step;
    slots_.push_back(slot);
    return true;
  }
  step_is_short_ = true;
  const bool is_cut = options_.batch.uneven == pipeline::Uneven::kPartial && last_step == slot.step;
  if (rows_of_step_ > 0 && !is_cut) slots_.push_back(slot);
  return false;
}

const wds::Sample* EpochOrder::take(Process& process, int& number) {
  for (std::size_t tried = 0; tried < process.streams.size(); ++tried) {
    Stream& stream = process.streams[process.turn];
    process.turn = (process.turn + 1) % process.streams.size();
    if (stream.ready == 0 && !stream.ended) refill();
    if (stream.ready == 0) continue;
    number = stream.number;
    --stream.ready;
    if (stream.used == stream.blocks[stream.block].samples.size()) {
      ++stream.block;
      stream.used = 0;
    }
    return &stream.blocks[stream.block].samples[stream.used++];
  }
  return nullptr;
}

/// Reads ahead for all streams at once.
void EpochOrder::refill() {
  std::vector<Stream*> streams;
  for (Process& process : processes_)
    for (Stream& stream : process.streams) streams.push_back(&stream);
  const std::size_t slots = rows_at_once_ * static_cast<std::size_t>(stripe_) * processes_.size();
  const std::size_t wanted = slots / streams.size() + wds::SampleBlock::kMaxSamples;
  arena_.execute([&] {
    tbb::parallel_for(std::size_t{0}, streams.size(), [&](std::size_t i) {
      Stream& stream = *streams[i];
      while (!stream.ended && stream.ready < wanted) {
        wds::SampleBlock block;
        stream.ended = !stream.samples->next(block);
        if (stream.ended) break;
        stream.ready += block.samples.size();
        stream.found += block.samples.size();
        stream.blocks.push_back(std::move(block));
      }
    });
  });
}

void EpochOrder::keep_own() {
  if (!place_.process || processes_.size() == 1) return;
  std::erase_if(slots_, [&](const OrderedSlot& slot) {
    return wds::process_of(slot.slot, stripe_, options_.split.topology.processes) !=
           *place_.process;
  });
}

}  // namespace millrace::tools
