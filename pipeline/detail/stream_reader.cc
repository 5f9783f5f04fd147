#include "pipeline/detail/stream_reader.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace millrace::pipeline::detail {

StreamReader::StreamReader(std::size_t place, int number, std::uint32_t first,
                           Position::Stream start, const Shared& shared)
    : place_(place),
      first_(first),
      start_(std::move(start)),
      source_(shared.source),
      ledgers_(shared.ledgers),
      restore_(shared.restore),
      request_{.stream = number,
               .num_streams = shared.options.split.streams,
               .seed = shared.options.shuffle.seed,
               .max_samples = stream_share(shared.options.epochs.samples,
                                           shared.options.split.streams, number),
               .stop = shared.stop},
      is_empty_(shared.options.epochs.samples > 0 && request_.max_samples == 0) {}

BlockRead StreamReader::read(const ReadRequest& request) {
  BlockRead result{.stream = place_, .epoch = request.epoch};
  try {
    const bool opens = !stream_ || request.epoch != request_.epoch;
    if (opens && request.epoch == first_ && (start_.start || start_.skip > 0)) {
      result.end = !restore(result.block);
    } else {
      if (opens) open(request.epoch);
      take_snapshot();
      result.end = !next_block(result.block);
    }
    result.start = snapshot_;
    result.skip = since_snapshot_;
    since_snapshot_ += result.block.samples.size();
  } catch (...) {
    result.error = std::current_exception();
  }
  if (result.end || result.error) stream_.reset();
  return result;
}

void StreamReader::open(std::uint32_t epoch) {
  stream_.reset();  // frees its shuffle buffer before the next one is filled
  const Position::Stream from = epoch == first_ ? start_ : Position::Stream{};
  request_.epoch = epoch;
  snapshot_ = from.start;
  since_snapshot_ = 0;
  to_skip_ = from.skip;
  if (is_empty_) return;
  request_.start = from.start.get();
  request_.ledger = ledgers_.of(epoch);
  stream_ = source_.open(request_);
}

/// Opens the stream where the position says, and says what that took.
bool StreamReader::restore(wds::SampleBlock& block) {
  const auto begin = std::chrono::steady_clock::now();
  open(first_);
  const bool more = next_block(block);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  const std::uint64_t buffered = start_.start ? start_.start->buffered.size() : 0;
  const std::uint64_t bytes = stream_ ? stream_->restored_bytes() : 0;
  restore_.add(buffered + start_.skip, bytes + skipped_bytes_, took.count());
  return more;
}

bool StreamReader::next_block(wds::SampleBlock& block) {
  do {
    block = {};
    if (is_empty_ || !stream_->next(block)) return false;
    const std::size_t skipped = std::min<std::size_t>(to_skip_, block.samples.size());
    const auto end = block.samples.begin() + static_cast<std::ptrdiff_t>(skipped);
    for (auto one = block.samples.begin(); one != end; ++one) {
      block.num_bytes -= one->num_bytes();
      skipped_bytes_ += one->num_bytes();
    }
    block.samples.erase(block.samples.begin(), end);
    to_skip_ -= skipped;
    since_snapshot_ += skipped;
  } while (block.samples.empty());
  return true;
}

void StreamReader::take_snapshot() {
  const std::size_t buffered = snapshot_ ? snapshot_->buffered.size() : 0;
  if (since_snapshot_ <= buffered / 4) return;
  snapshot_ = std::make_shared<const wds::StreamPosition>(stream_->position());
  since_snapshot_ = 0;
}

}  // namespace millrace::pipeline::detail
