#include "pipeline/detail/merge.h"

#include <algorithm>
#include <utility>

#include "pipeline/epoch_length.h"
#include "pipeline/slots.h"
#include "wds/split.h"

namespace millrace::pipeline::detail {
namespace {

/// The slots of an epoch that is over were those of whole rounds, perhaps of other ones.
std::int64_t batches_before(const MergeOptions& options, const Position& start) {
  const bool is_over = !start.streams.empty() && start.round.taken == 0 && start.all_ended();
  const std::int64_t together = is_over ? options.split.topology.devices : 1;
  const std::int64_t slots = together * options.batch.size;
  return (start.slots + slots - 1) / slots * together +
         (start.fills.empty() ? 0 : start.fills.front().batches);
}

}  // namespace

Merge::Merge(MergeOptions options, const Position& start, const BatchLayout& layout,
             BatchPool& pool, Sink& sink)
    : options_(std::move(options)),
      stripe_(wds::stream_stripe(options_.split)),
      layout_(layout),
      pool_(pool),
      sink_(sink),
      streams_(options_.stream_numbers.size()),
      next_stream_(start.turns.front()),
      epoch_(start.epoch),
      epoch_batches_(batches_before(options_, start)),
      permits_(options_.permits),
      blocks_per_stream_(options_.blocks_per_stream) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].reading = epoch_;
    if (i < start.streams.size()) streams_[i].used = start.streams[i];
    sums_.taken += streams_[i].used.samples_out();
    if (streams_[i].used.ended) end_stream(streams_[i]);
  }
  sums_.is_promised = !options_.may_stop || start.slots == 0;
  // Those of a last round that is dropped are not in a position behind batches that were filled.
  if (options_.batch.fill && options_.batch.uneven == Uneven::kDrop && start.slots > 0)
    sums_.most_dropped =
        static_cast<std::uint64_t>(options_.split.topology.devices * options_.batch.size);
}

void Merge::handle(const Event& event) {
  std::visit([this](const auto& what) { on(what); }, event);
  while (step()) continue;
  flush_block();
}

void Merge::on(const Started&) {
  for (Stream& stream : streams_) request(stream);
}

void Merge::on(const std::shared_ptr<BlockRead>& read) {
  Stream& stream = streams_[read->stream];
  stream.busy = false;
  if (read->epoch == stream.reading) {
    stream.idle = read->error || (read->end && is_last(stream.reading));
    if (read->end) ++stream.reading;
    stream.ready.push_back(read);
  } else {  // of an epoch that was cut meanwhile
    drop_rest(*read, 0);
  }
  request(stream);
}

void Merge::on(const BlockDecoded& decoded) { bytes_in_decode_ -= decoded.num_bytes; }

void Merge::on(const PermitReturned&) { ++permits_; }

void Merge::on(const EpochCut& cut) {
  if (!is_over_ && cut.epoch == epoch_) end_epoch();
}

void Merge::on(const ReadAhead& ahead) {
  blocks_per_stream_ = ahead.blocks;
  for (Stream& stream : streams_) request(stream);
}

bool Merge::step() {
  if (is_over_) return false;
  Stream* stream = epoch_is_full() ? nullptr : find_sample();
  if (!stream) {
    if (!epoch_is_full() && num_ended_ < streams_.size()) return false;
    end_epoch();
    return !is_over_;
  }
  if (stream->ready.front()->error) {
    fail(stream->ready.front()->error);
    return false;
  }
  if (bytes_in_decode_ >= options_.decode_bytes) return false;
  if (!round_ && permits_ == 0) return false;
  if (!round_) open_round();
  take(*stream);
  return true;
}

/// The stream of the next slot, with a sample or a fault at its front; null if that is still being
/// read, or all streams have ended.
Merge::Stream* Merge::find_sample() {
  while (num_ended_ < streams_.size()) {
    Stream& stream = streams_[next_stream_];
    if (!stream.ended) {
      if (stream.ready.empty()) return nullptr;
      const BlockRead& front = *stream.ready.front();
      if (!front.end) return &stream;
      stream.used.lost = front.lost;
      end_stream(stream);
      stream.ready.pop_front();
      request(stream);
    }
    next_stream_ = (next_stream_ + 1) % streams_.size();
  }
  return nullptr;
}

void Merge::take(Stream& stream) {
  BlockRead& from = *stream.ready.front();
  const decode::SampleId id{
      .seed = options_.seed,
      .epoch = epoch_,
      .stream = static_cast<std::uint32_t>(options_.stream_numbers[next_stream_]),
      .index = from.first_index() + stream.cursor};
  wds::Sample& sample = from.block.samples[stream.cursor++];
  const std::int64_t slot = round_->assign();
  if (!block_) {
    block_ = std::make_shared<DecodeBlock>(DecodeBlock{.round = round_, .first_slot = slot});
    block_->samples.reserve(wds::SampleBlock::kMaxSamples);
  }
  block_->num_bytes += sample.num_bytes();
  block_->samples.push_back({std::move(sample), id});
  next_stream_ = (next_stream_ + 1) % streams_.size();
  ++sums_.taken;
  if (stream.cursor == from.block.samples.size()) leave_block(stream);
  if (round_->is_full()) {
    close_round(Output::Kind::kRound);
  } else if (block_->samples.size() == wds::SampleBlock::kMaxSamples ||
             block_->num_bytes >= wds::SampleBlock::kMaxBytes) {
    flush_block();
  }
}

void Merge::leave_block(Stream& stream) {
  const BlockRead& read = *stream.ready.front();
  stream.used = {.start = read.start, .skip = read.skip + stream.cursor, .trails = read.trails};
  stream.ready.pop_front();
  stream.cursor = 0;
  request(stream);
}

void Merge::end_stream(Stream& stream) {
  stream.ended = true;
  stream.used.ended = true;
  sums_.lost += stream.used.lost;
  ++num_ended_;
  if (stream.reading == epoch_) {  // ended in the start position: nothing was read
    if (is_last(epoch_)) stream.idle = true;
    ++stream.reading;
  }
}

void Merge::request(Stream& stream) {
  if (stream.busy || stream.idle || stream.ready.size() >= blocks_per_stream_) return;
  stream.busy = true;
  sink_.read({static_cast<std::size_t>(&stream - streams_.data()), stream.reading});
}

void Merge::begin_epoch(std::uint32_t epoch) {
  epoch_ = epoch;
  epoch_batches_ = 0;
  next_stream_ = 0;
  num_ended_ = 0;
  sums_ = {};
  for (Stream& stream : streams_) {
    stream.ended = false;
    stream.used = {};
    if (stream.reading < epoch) stream.reading = epoch;
    drop_stale_blocks(stream);
    request(stream);
  }
}

/// Blocks of an epoch that was cut.
void Merge::drop_stale_blocks(Stream& stream) {
  while (!stream.ready.empty() && stream.ready.front()->epoch < epoch_) {
    drop_rest(*stream.ready.front(), stream.cursor);
    stream.ready.pop_front();
    stream.cursor = 0;
  }
}

void Merge::drop_rest(const BlockRead& read, std::size_t from) {
  const std::vector<wds::Sample>& samples = read.block.samples;
  std::size_t bytes = 0;
  for (std::size_t i = from; i < samples.size(); ++i) bytes += samples[i].num_bytes();
  sink_.drop(samples.size() - from, bytes);
}

void Merge::end_epoch() {
  const bool drops = options_.batch.uneven == Uneven::kDrop && options_.epochs.batches == 0;
  if (round_) close_round(drops ? Output::Kind::kDiscarded : Output::Kind::kRound);
  if (const std::exception_ptr wrong = wrong_number()) return fail(wrong);
  mask_up_to_limit();
  sink_.deliver(next_output(Output::Kind::kEpochEnd));
  if (is_last(epoch_)) {
    is_over_ = true;
  } else {
    begin_epoch(epoch_ + 1);
  }
}

/// The fault that an epoch is whose samples are not those promised; null if they are.
std::exception_ptr Merge::wrong_number() const {
  if (!options_.own_samples || !sums_.is_promised || num_ended_ < streams_.size()) return nullptr;
  EpochSamples samples{.epoch = epoch_,
                       .promised = static_cast<std::uint64_t>(*options_.own_samples),
                       .found = sums_.taken,
                       .lost = sums_.lost};
  if (samples.add_up()) return nullptr;
  samples.found +=
      std::min(sums_.most_dropped, samples.promised - std::min(samples.promised, samples.found));
  if (samples.add_up()) return nullptr;
  samples.found = sums_.taken;
  return std::make_exception_ptr(wrong_samples(samples, options_.split.topology));
}

void Merge::fail(std::exception_ptr error) {
  if (round_) close_round(Output::Kind::kDiscarded);
  Output fault = next_output(Output::Kind::kFault);
  fault.error = std::move(error);
  sink_.deliver(fault);
  is_over_ = true;
}

// A batch in the middle of its round has no position of its own: what continues there begins the
// round again.
void Merge::open_round() {
  --permits_;
  const std::int64_t devices = options_.split.topology.devices;
  const std::int64_t wanted = options_.epochs.batches;
  const std::int64_t count = wanted > 0 ? std::min(devices, wanted - epoch_batches_) : devices;
  const auto before = count > 1 ? position() : nullptr;
  std::vector<Batch> batches(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Batch& batch = batches[static_cast<std::size_t>(i)];
    batch.index = epoch_batches_ + i;
    batch.epoch = epoch_;
    batch.slots = slots_of_batch(options_.split, options_.batch.size, batch.index);
    batch.owner = pool_.acquire();
    if (i + 1 == count) continue;
    auto within = std::make_shared<Position>(*before);
    within->round = {.taken = i + 1, .devices = devices, .batch_size = options_.batch.size};
    batch.position = std::move(within);
  }
  round_ = std::make_shared<OpenRound>(
      layout_, std::move(batches), options_.mixer,
      options_.batch.fill ? OpenRound::Finish::kByCaller : OpenRound::Finish::kOnceComplete);
}

// Closes before the last block is sent, so that decoding it completes the round; without a last
// block close() itself may.
void Merge::close_round(Output::Kind kind) {
  const Output output = next_output(kind);
  if (kind == Output::Kind::kRound)
    epoch_batches_ += round_->num_batches();
  else
    sink_.drop(static_cast<std::size_t>(round_->num_assigned()), 0);
  const bool is_cut = options_.batch.uneven == Uneven::kPartial;
  if (round_->close(output, is_cut, position())) sink_.deliver(round_->output());
  flush_block();
  round_.reset();
}

void Merge::flush_block() {
  if (!block_) return;
  bytes_in_decode_ += block_->num_bytes;
  sink_.decode(std::exchange(block_, nullptr));
}

void Merge::mask_up_to_limit() {
  const std::int64_t wanted = std::max(options_.epochs.batches, options_.least_batches);
  if (epoch_batches_ >= wanted) return;
  Output masked = next_output(Output::Kind::kMasked);
  masked.repeat = wanted - epoch_batches_;
  masked.position = position();
  sink_.deliver(masked);
}

bool Merge::is_last(std::uint32_t epoch) const {
  const EpochOptions& epochs = options_.epochs;
  return epochs.count != 0 && epoch + 1 == epochs.first + epochs.count;
}

bool Merge::epoch_is_full() const {
  return options_.epochs.batches > 0 && !round_ && epoch_batches_ >= options_.epochs.batches;
}

std::shared_ptr<Position> Merge::position() const {
  auto position = std::make_shared<Position>();
  position->epoch = epoch_;
  const Topology& topology = options_.split.topology;
  position->process = topology.process;
  position->processes = topology.processes;
  position->stripe = stripe_;
  position->slots = epoch_batches_ * options_.batch.size;
  position->turns = {static_cast<std::uint32_t>(next_stream_)};
  position->fingerprint = options_.fingerprint;
  position->seed_processes = options_.seed_processes;
  position->order = options_.order;
  position->streams.reserve(streams_.size());
  for (const Stream& stream : streams_) {
    position->streams.push_back(stream.used);
    if (stream.cursor == 0 || stream.ended) continue;
    const BlockRead& read = *stream.ready.front();
    position->streams.back() = {
        .start = read.start, .skip = read.skip + stream.cursor, .trails = read.trails};
  }
  // Full last batches do not show it: some processes' may be full, and others' not.
  const bool is_done =
      options_.num_samples > 0 && position->slots * topology.processes >= options_.num_samples;
  if (is_done)
    for (Position::Stream& stream : position->streams) stream.ended = true;
  return position;
}

Output Merge::next_output(Output::Kind kind) {
  return {.sequence = sequence_++, .kind = kind, .epoch = epoch_, .index = epoch_batches_};
}

}  // namespace millrace::pipeline::detail
