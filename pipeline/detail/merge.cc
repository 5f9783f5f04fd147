#include "pipeline/detail/merge.h"

#include <algorithm>
#include <utility>

namespace millrace::pipeline::detail {

Merge::Merge(MergeOptions options, const BatchLayout& layout, BatchPool& pool, Sink& sink)
    : options_(std::move(options)),
      layout_(layout),
      pool_(pool),
      sink_(sink),
      lanes_(options_.streams.size()),
      permits_(options_.permits) {}

void Merge::start(const Position& position) {
  epoch_ = position.epoch;
  epoch_batches_ = position.batches;
  next_lane_ = position.next_stream;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].reading = epoch_;
    if (i < position.streams.size()) lanes_[i].used = position.streams[i];
    if (lanes_[i].used.ended) end_lane(lanes_[i]);
  }
  for (Lane& lane : lanes_) request(lane);
  pump();
}

void Merge::on_read(ReadResult result) {
  Lane& lane = lanes_[result.lane];
  lane.busy = false;
  if (result.epoch == lane.reading) {
    lane.idle = result.error || (result.end && is_last(lane.reading));
    if (result.end) ++lane.reading;
    lane.ready.push_back(std::move(result));
  } else {  // of an epoch that was cut meanwhile
    drop(result.block, 0);
  }
  request(lane);
  pump();
}

void Merge::on_decoded(std::size_t bytes) {
  bytes_in_decode_ -= bytes;
  pump();
}

void Merge::on_permit() {
  ++permits_;
  pump();
}

void Merge::on_cut(std::uint32_t epoch) {
  if (done_ || epoch != epoch_) return;
  end_epoch();
  pump();
}

void Merge::pump() {
  while (step()) {
  }
  flush_block();
}

bool Merge::step() {
  if (done_) return false;
  Lane* lane = epoch_is_full() ? nullptr : find_sample();
  if (!lane) {
    if (!epoch_is_full() && num_ended_ < lanes_.size()) return false;
    end_epoch();
    return true;
  }
  if (lane->ready.front().error) {
    fail(lane->ready.front().error);
    return false;
  }
  if (bytes_in_decode_ >= options_.decode_bytes) return false;
  if (!batch_ && permits_ == 0) return false;
  if (!batch_) open_batch();
  take(*lane);
  return true;
}

/// The lane that the next slot belongs to, with a sample or a fault at its front; null when that is
/// still being read, or all lanes have ended.
Merge::Lane* Merge::find_sample() {
  while (num_ended_ < lanes_.size()) {
    Lane& lane = lanes_[next_lane_];
    if (!lane.ended) {
      if (lane.ready.empty()) return nullptr;
      if (!lane.ready.front().end) return &lane;
      end_lane(lane);
      lane.ready.pop_front();
      request(lane);
    }
    next_lane_ = (next_lane_ + 1) % lanes_.size();
  }
  return nullptr;
}

void Merge::take(Lane& lane) {
  ReadResult& from = lane.ready.front();
  const std::uint64_t index = from.first_index() + lane.cursor;
  wds::Sample& sample = from.block.samples[lane.cursor++];
  if (!block_) {
    block_ = std::make_shared<DecodeBlock>();
    block_->batch = batch_;
    block_->samples.reserve(wds::SampleBlock::kMaxSamples);
  }
  block_->num_bytes += sample.num_bytes();
  const int stream = options_.streams[next_lane_];
  block_->samples.push_back(
      {std::move(sample), static_cast<std::uint32_t>(stream), index, batch_->assign()});
  next_lane_ = (next_lane_ + 1) % lanes_.size();
  if (lane.cursor == from.block.samples.size()) leave_block(lane);
  if (batch_->full()) {
    close_full_batch();
  } else if (block_->samples.size() == wds::SampleBlock::kMaxSamples ||
             block_->num_bytes >= wds::SampleBlock::kMaxBytes) {
    flush_block();
  }
}

void Merge::leave_block(Lane& lane) {
  ReadResult& block = lane.ready.front();
  lane.used = {std::move(block.start), block.skip + lane.cursor, false};
  lane.ready.pop_front();
  lane.cursor = 0;
  request(lane);
}

void Merge::end_lane(Lane& lane) {
  lane.ended = true;
  lane.used.ended = true;
  ++num_ended_;
  if (lane.reading == epoch_) {  // only when a position says so: nothing was read
    if (is_last(epoch_)) lane.idle = true;
    ++lane.reading;
  }
}

void Merge::request(Lane& lane) {
  if (lane.busy || lane.idle || lane.ready.size() >= options_.blocks_per_lane) return;
  lane.busy = true;
  sink_.read({static_cast<std::size_t>(&lane - lanes_.data()), lane.reading});
}

void Merge::begin_epoch(std::uint32_t epoch) {
  epoch_ = epoch;
  epoch_batches_ = 0;
  next_lane_ = 0;
  num_ended_ = 0;
  for (Lane& lane : lanes_) {
    lane.ended = false;
    lane.used = {};
    if (lane.reading < epoch) lane.reading = epoch;
    drop_stale_blocks(lane);
    request(lane);
  }
}

/// What was read of an epoch that was cut.
void Merge::drop_stale_blocks(Lane& lane) {
  while (!lane.ready.empty() && lane.ready.front().epoch < epoch_) {
    drop(lane.ready.front().block, lane.cursor);
    lane.ready.pop_front();
    lane.cursor = 0;
  }
}

void Merge::drop(const wds::SampleBlock& block, std::size_t from) {
  std::size_t bytes = 0;
  for (std::size_t i = from; i < block.samples.size(); ++i) {
    bytes += block.samples[i].num_bytes();
  }
  sink_.dropped(block.samples.size() - from, bytes);
}

void Merge::end_epoch() {
  if (batch_) {
    const bool drop = options_.batch.drop_last;
    close_short_batch(drop ? Finished::Kind::kDropped : Finished::Kind::kBatch);
  }
  mask_up_to_limit();
  sink_.finish(ticket(Finished::Kind::kEpochEnd));
  if (is_last(epoch_)) {
    done_ = true;
  } else {
    begin_epoch(epoch_ + 1);
  }
}

void Merge::fail(std::exception_ptr error) {
  if (batch_) close_short_batch(Finished::Kind::kDropped);
  Finished fault = ticket(Finished::Kind::kFault);
  fault.error = std::move(error);
  sink_.finish(std::move(fault));
  done_ = true;
}

void Merge::open_batch() {
  --permits_;
  batch_ = std::make_shared<OpenBatch>(layout_, pool_.acquire(), ticket(Finished::Kind::kBatch));
}

// The position must be in the batch before its last block can be decoded.
void Merge::close_full_batch() {
  ++epoch_batches_;
  batch_->set_position(position());
  flush_block();
  batch_.reset();
}

void Merge::close_short_batch(Finished::Kind kind) {
  if (kind == Finished::Kind::kBatch) {
    ++epoch_batches_;
  } else {
    sink_.dropped(static_cast<std::size_t>(batch_->num_assigned()), 0);
  }
  batch_->set_position(position());
  flush_block();
  if (batch_->seal(kind)) sink_.finish(batch_->complete(batch_));
  batch_.reset();
}

void Merge::flush_block() {
  if (!block_) return;
  bytes_in_decode_ += block_->num_bytes;
  sink_.decode(std::exchange(block_, nullptr));
}

void Merge::mask_up_to_limit() {
  if (epoch_batches_ >= options_.epochs.batches) return;
  Finished masked = ticket(Finished::Kind::kMasked);
  masked.repeat = options_.epochs.batches - epoch_batches_;
  sink_.finish(std::move(masked));
}

bool Merge::is_last(std::uint32_t epoch) const {
  const EpochOptions& epochs = options_.epochs;
  return epochs.count != 0 && epoch + 1 == epochs.first + epochs.count;
}

bool Merge::epoch_is_full() const {
  return options_.epochs.batches > 0 && !batch_ && epoch_batches_ >= options_.epochs.batches;
}

std::shared_ptr<const Position> Merge::position() const {
  auto position = std::make_shared<Position>();
  position->epoch = epoch_;
  position->batches = epoch_batches_;
  position->next_stream = static_cast<std::uint32_t>(next_lane_);
  position->fingerprint = options_.fingerprint;
  position->streams.reserve(lanes_.size());
  for (const Lane& lane : lanes_) {
    position->streams.push_back(lane.used);
    if (lane.cursor == 0 || lane.ended) continue;
    const ReadResult& block = lane.ready.front();
    position->streams.back() = {block.start, block.skip + lane.cursor, false};
  }
  return position;
}

Finished Merge::ticket(Finished::Kind kind) {
  Finished ticket;
  ticket.sequence = sequence_++;
  ticket.kind = kind;
  ticket.epoch = epoch_;
  ticket.index = epoch_batches_;
  return ticket;
}

}  // namespace millrace::pipeline::detail
