#include "pipeline/detail/stream_reader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "io/base/error.h"

namespace millrace::pipeline::detail {
namespace {

// A saved position follows so many samples' trails, and a block's. Without trails a resumed run
// reads them again, beyond its buffer's.
constexpr std::size_t kMostSinceSnapshot = 512;

}  // namespace

StreamReader::StreamReader(std::size_t place, int number, std::uint32_t first,
                           const Position::Stream& start, const Shared& shared)
    : place_(place),
      first_(first),
      start_(start.exact()),
      source_(shared.source),
      ledgers_(shared.ledgers),
      restore_(shared.restore),
      request_{.stream = number,
               .num_streams = shared.options.split.streams,
               .seed = shared.options.shuffle.seed,
               .max_samples = stream_share(shared.options.epochs.samples,
                                           shared.options.split.streams, number),
               .stop = shared.stop},
      end_epoch_(shared.options.epochs.count == 0
                     ? 0
                     : shared.options.epochs.first + shared.options.epochs.count),
      is_empty_(shared.options.epochs.samples > 0 && request_.max_samples == 0) {
  restore_.wanted += start_.skip + (start_.start ? start_.start->num_buffered() : 0);
}

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
    if (stream_ && stream_->is_draining()) prepare_next(result.block);
    result.start = snapshot_;
    result.skip = since_snapshot_;
    result.trails = trails_;
    since_snapshot_ += result.block.samples.size();
  } catch (...) {
    result.error = std::current_exception();
  }
  if (result.end && stream_) result.lost = stream_->position().lost;
  if (result.end || result.error) stream_.reset();
  return result;
}

void StreamReader::open(std::uint32_t epoch) {
  stream_.reset();  // its shuffle buffer goes before the next one grows
  const Position::Stream from = epoch == first_ ? start_ : Position::Stream{};
  request_.epoch = epoch;
  snapshot_ = from.start;
  since_snapshot_ = 0;
  trails_ = nullptr;
  to_skip_ = from.skip;
  if (is_empty_) return;
  std::optional<Next> next = std::exchange(next_, std::nullopt);
  if (!next || next->epoch != epoch) {
    stream_ = open_stream(epoch, from.start.get());
    if (from.start) follow_losses();
    return;
  }
  if (next->error) std::rethrow_exception(next->error);
  stream_ = std::move(next->stream);
}

/// Where samples of the buffer could not be read again, trails lead from what is left of it.
void StreamReader::follow_losses() {
  wds::StreamPosition now = stream_->position();
  if (now.lost != snapshot_->lost)
    snapshot_ = std::make_shared<const wds::StreamPosition>(std::move(now));
}

std::unique_ptr<SampleSource::Stream> StreamReader::open_stream(std::uint32_t epoch,
                                                                const wds::StreamPosition* start) {
  SampleSource::Request request = request_;
  request.epoch = epoch;
  request.start = start;
  request.restored = start != nullptr ? &restore_.samples : nullptr;
  request.ledger = ledgers_.of(epoch);
  auto stream = source_.open(request);
  require(stream != nullptr, "the source of samples opens nothing");
  return stream;
}

// A fault there is one of the next epoch, and comes at its place.
void StreamReader::prepare_next(const wds::SampleBlock& drained) {
  const std::uint32_t epoch = request_.epoch + 1;
  if (epoch == end_epoch_) return;
  if (!next_) next_ = Next{.epoch = epoch};
  if (next_->error) return;
  next_->samples += drained.samples.size();
  next_->bytes += drained.num_bytes;
  try {
    if (!next_->stream) next_->stream = open_stream(epoch, nullptr);
    next_->stream->prefill(next_->samples, next_->bytes);
  } catch (...) {
    next_->error = std::current_exception();
    next_->stream.reset();
  }
}

/// Opens the stream where the position says, and says what that took.
bool StreamReader::restore(wds::SampleBlock& block) {
  const auto begin = std::chrono::steady_clock::now();
  open(first_);
  const bool more = next_block(block);
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  const std::uint64_t bytes = stream_ ? stream_->restored_bytes() : 0;
  restore_.add(bytes + skipped_bytes_, took.count());
  return more;
}

bool StreamReader::next_block(wds::SampleBlock& block) {
  do {
    block = {};
    if (is_empty_ || !stream_->next(block)) return false;
    follow(block);
    const std::size_t skipped = std::min<std::size_t>(to_skip_, block.samples.size());
    const auto end = block.samples.begin() + static_cast<std::ptrdiff_t>(skipped);
    for (auto one = block.samples.begin(); one != end; ++one) {
      block.num_bytes -= one->num_bytes();
      skipped_bytes_ += one->num_bytes();
    }
    block.samples.erase(block.samples.begin(), end);
    to_skip_ -= skipped;
    since_snapshot_ += skipped;
    restore_.samples += skipped;
  } while (block.samples.empty());
  return true;
}

void StreamReader::take_snapshot() {
  const std::size_t buffered = snapshot_ ? snapshot_->num_buffered() : 0;
  if (since_snapshot_ <= std::min(buffered / 4, kMostSinceSnapshot)) return;
  snapshot_ = std::make_shared<const wds::StreamPosition>(stream_->position());
  since_snapshot_ = 0;
  trails_ = nullptr;
}

/// Without a block's trail those behind it lead nowhere.
void StreamReader::follow(const wds::SampleBlock& block) {
  const bool is_first = since_snapshot_ == 0;
  if (!block.trail || !(is_first || trails_))
    trails_ = nullptr;
  else
    trails_ = std::make_shared<const Position::Trails>(Position::Trails{block.trail, trails_});
}

}  // namespace millrace::pipeline::detail
