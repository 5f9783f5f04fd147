#include "wds/sample_stream.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "io/base/error.h"
#include "wds/detail/permuted_reader.h"
#include "wds/detail/piece_reader.h"
#include "wds/detail/sample_fetch.h"
#include "wds/detail/shard_sequence.h"
#include "wds/detail/shuffle_buffer.h"

namespace millrace::wds {

using detail::BufferedSample;

std::uint64_t SampleRange::of(std::uint64_t total) const {
  const std::uint64_t rest = total - std::min(total, skip);
  return take == 0 ? rest : std::min(take, rest);
}

struct SampleStream::State {
  State(StreamSpec wanted, const io::Opener& borrowed_opener, FaultLedger& borrowed_ledger,
        std::stop_token token)
      : spec(std::move(wanted)),
        stop(std::move(token)),
        shared{spec, borrowed_opener, borrowed_ledger},
        shards(spec),
        buffer(spec),
        read([this](BufferedSample& sample) {
          if (!read_sample(sample)) return false;
          trail->enter({sample.shard, sample.sample.offset});
          return true;
        }) {
    const FaultPolicy& policy = borrowed_ledger.policy();
    spec.shard.stop = stop;
    spec.shard.lenient = policy.lenient;
    if (policy.concatenated) spec.shard.tar.behind_end = BehindEnd::kRead;
    spec.shard.offset = 0;
    is_far = std::ranges::any_of(*spec.shards, io::is_network_url);
    if (spec.shuffle.order == Order::kPermutation)
      permuted.emplace(spec, shared.opener, shared.ledger);
  }

  void restore(const StreamPosition& position);
  StreamPosition position() const;
  void mark(StreamPosition& position) const;
  void list_open(StreamPosition& position) const;
  detail::ShardPiece piece_of(std::uint32_t index);
  void lose(const detail::FetchedSamples::Lost& one);
  void end_early();
  bool next(SampleBlock& block);
  bool is_enough(const SampleBlock& block) const;
  bool next_sample(Sample& sample);
  bool next_permuted_block(SampleBlock& block);
  bool next_permuted(Sample& sample);
  std::shared_ptr<const StreamTrail> take_trail() {
    std::shared_ptr<const StreamTrail> taken =
        std::exchange(trail, std::make_shared<StreamTrail>());
    return std::exchange(trail_is_broken, false) ? nullptr : taken;
  }
  bool bring_back(BufferedSample& picked);
  bool read_sample(BufferedSample& sample);
  bool at_new_pass();
  bool is_draining();
  bool fill();
  bool gives_nothing() const;
  bool begin(std::uint32_t shard, std::uint64_t offset);
  std::size_t next_turn() const;
  bool try_read(std::size_t place, BufferedSample& sample);
  void close(std::size_t place);
  void survive(std::size_t place, const Error& fault);

  StreamSpec spec;
  std::stop_token stop;
  detail::PieceReader::Shared shared;
  detail::ShardSequence shards;
  detail::ShuffleBuffer buffer;
  // kPermutation: then nothing below is used but the trail
  std::optional<detail::PermutedReader> permuted;
  SampleBlock fetched;  // of which next_sample() returned so many
  std::size_t num_returned = 0;
  StreamPosition before_fetched;
  std::function<bool(BufferedSample&)> read;
  std::vector<detail::PieceReader> open;  // at most spec.shuffle.open_shards, which take turns
  std::size_t turn = 0;                   // place of the one whose sample is next
  std::uint32_t next_shard = 0;           // to be opened
  // Of the next block, and the position that its last step was given.
  std::shared_ptr<StreamTrail> trail = std::make_shared<StreamTrail>();
  StreamPosition marked;
  bool trail_is_broken = false;
  bool is_far = false;  // some of the shards are
  std::uint64_t restored_bytes = 0;
  std::uint64_t samples_in = 0;
  std::uint64_t samples_out = 0;
  std::uint64_t earlier_passes = 0;  // samples of earlier passes
  LostSamples lost = {};             // to faults
  std::size_t barren_shards = 0;     // consecutive shards without a sample,
  std::set<std::size_t> barren;      // of drawn ones: which have none
  bool ended = false;                // no more will be read
};

void SampleStream::State::restore(const StreamPosition& position) {
  if (permuted) return permuted->restore(position);
  lost = position.lost;
  samples_in = position.samples_in;
  samples_out = position.samples_out;
  earlier_passes = position.earlier_passes;
  next_shard = position.shard;
  if (position.offset > 0 && begin(position.shard, position.offset)) ++next_shard;
  if (open.size() + position.open.size() > static_cast<std::size_t>(spec.shuffle.open_shards))
    throw Error(ErrorCode::kInvalidArgument,
                "the saved position has more open shards than the stream");
  for (const StreamPosition::SampleRef& one : position.open) begin(one.shard, one.offset);
  turn = open.empty() ? 0 : position.turn % open.size();
  detail::FetchedSamples buffered = detail::fetch_samples(
      position.buffered, [this](std::uint32_t index) { return piece_of(index); }, shared);
  restored_bytes = buffered.bytes;
  for (const detail::FetchedSamples::Lost& one : buffered.lost) lose(one);
  buffer.restore(std::move(buffered.samples), samples_in - earlier_passes,
                 samples_out - earlier_passes);
}

StreamPosition SampleStream::State::position() const {
  if (permuted) {
    if (num_returned == fetched.samples.size()) return permuted->position();
    StreamPosition within = before_fetched;
    fetched.trail->advance(within, num_returned);
    return within;
  }
  StreamPosition position;
  mark(position);
  position.buffered = buffer.refs();
  return position;
}

// All but the buffer. One shard is `shard` and `offset`; several are in `open`. Shards that are
// read to their end are not among them: they would be closed before the next sample is read.
void SampleStream::State::mark(StreamPosition& position) const {
  position.samples_out = samples_out;
  position.samples_in = samples_in;
  position.earlier_passes = earlier_passes;
  position.lost = lost;
  const bool one_is_open =
      spec.shuffle.open_shards <= 1 && !open.empty() && !open.front().is_done();
  position.shard = one_is_open ? open.front().shard() : next_shard;
  position.offset = one_is_open ? open.front().position() : 0;
  if (spec.shuffle.open_shards > 1) list_open(position);
}

void SampleStream::State::list_open(StreamPosition& position) const {
  position.open.clear();
  position.turn = 0;
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (i == turn) position.turn = static_cast<std::uint32_t>(position.open.size());
    if (!open[i].is_done()) position.open.push_back({open[i].shard(), open[i].position()});
  }
  if (position.turn >= position.open.size()) position.turn = 0;
}

// As if it had never come in: what has been read again is what the buffer holds.
void SampleStream::State::lose(const detail::FetchedSamples::Lost& one) {
  samples_in -= one.samples;
  lost.samples += one.samples;
  if (shared.ledger.report(one.fault, one.samples) == OnFault::kStop) end_early();
}

detail::ShardPiece SampleStream::State::piece_of(std::uint32_t index) {
  if (auto piece = shards.at(index)) return *std::move(piece);
  throw Error(ErrorCode::kInvalidArgument, "the saved position names shard " +
                                               std::to_string(index) + " of a stream that has " +
                                               std::to_string(shards.round()));
}

bool SampleStream::State::next(SampleBlock& block) {
  if (permuted) return next_permuted_block(block);
  block.samples.clear();
  block.num_bytes = 0;
  for (Sample sample; !is_enough(block) && next_sample(sample);) block.add(std::move(sample));
  block.trail = take_trail();
  return !block.samples.empty();
}

// A connection from afar is slow at first, and whoever waits for the first samples should not wait
// for a block of them: the first ones are as large as all before them.
bool SampleStream::State::is_enough(const SampleBlock& block) const {
  const std::size_t size = block.samples.size();
  return block.full() || (is_far && size > 0 && size >= samples_out - size);
}

bool SampleStream::State::next_sample(Sample& sample) {
  // Checked here too: a shuffle buffer is emptied without reading.
  if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "reading was stopped");
  if (permuted) return next_permuted(sample);
  if (spec.max_samples > 0 && samples_out == spec.max_samples) return false;
  BufferedSample picked;
  std::optional<std::size_t> place;
  do {
    place = buffer.next(read, samples_out, picked);
    if (!place) return false;
  } while (picked.aside && !bring_back(picked));
  sample = std::move(picked.sample);
  ++samples_out;
  mark(marked);
  trail->leave(*place, marked);
  return true;
}

// What cannot be read a second time is lost as a sample that cannot be read the first time is. The
// block has no trail then, which begins at a buffer that held the sample.
bool SampleStream::State::bring_back(BufferedSample& picked) {
  try {
    detail::read_again(picked.sample, *picked.aside, shared.opener, spec.shard);
    return true;
  } catch (const Error& fault) {
    if (fault.code() == ErrorCode::kCancelled) throw;
    trail_is_broken = true;
    lose({.fault = fault});
    return false;
  }
}

bool SampleStream::State::next_permuted_block(SampleBlock& block) {
  const bool more = permuted->next(block);
  permuted->report_lost(permuted->position().samples_in);
  return more;
}

// A permutation reads blocks, whose samples other sets' may come between.
bool SampleStream::State::next_permuted(Sample& sample) {
  if (num_returned == fetched.samples.size()) {
    num_returned = 0;
    before_fetched = permuted->position();
    if (!permuted->next(fetched)) {
      permuted->report_lost(permuted->position().samples_in);
      return false;
    }
  }
  sample = std::move(fetched.samples[num_returned]);
  ++num_returned;
  const StreamPosition now = position();
  permuted->report_lost(now.samples_in);
  trail->pass(now);
  return true;
}

// Reads the next sample of the stream's shards; faults are handled by the policy.
bool SampleStream::State::read_sample(BufferedSample& sample) {
  while (!ended) {
    if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "reading was stopped");
    if (at_new_pass()) {
      if (!buffer.held().empty()) return false;  // first empty the buffer of the last pass
      earlier_passes = samples_in;
      buffer.begin_pass();
    }
    if (!fill()) return false;
    const std::size_t place = next_turn();
    try {
      if (try_read(place, sample)) return true;
    } catch (const Error& fault) {
      survive(place, fault);
    }
  }
  return false;
}

// Whether the next sample is the first of another pass through the stream's shards.
bool SampleStream::State::at_new_pass() {
  return !spec.resampled && open.empty() && shards.begins_pass(next_shard);
}

// Between two passes of one epoch the next epoch is not near.
bool SampleStream::State::is_draining() {
  return !buffer.held().empty() &&
         (ended || (spec.max_samples == 0 && spec.passes <= 1 && at_new_pass()));
}

// Opens shards until there are enough, or the pass has no more. Returns false at the stream's end.
bool SampleStream::State::fill() {
  ended = gives_nothing();
  // Then no further pass makes up for what the stream was to have.
  if (ended && lost.samples + lost.shards > 0) lost.more = true;
  const auto most = static_cast<std::size_t>(spec.shuffle.open_shards);
  while (!ended && open.size() < most &&
         (open.empty() || spec.resampled || !shards.begins_pass(next_shard))) {
    if (!begin(next_shard, 0)) break;
    ++next_shard;
  }
  ended = ended || open.empty();
  return !ended;
}

// If a whole round gave nothing, the next one will not either. Drawn shards have no rounds.
// Passes that are not to fill up a length have an end; what each of them loses is counted.
bool SampleStream::State::gives_nothing() const {
  if (spec.resampled) return barren.size() == shards.round();
  return spec.max_samples > 0 && barren_shards > shards.round();
}

bool SampleStream::State::begin(std::uint32_t shard, std::uint64_t offset) {
  auto piece = shards.at(shard);
  if (!piece) return false;
  open.emplace_back(shared, shard, *std::move(piece), offset);
  return true;
}

// Shards that are read to their end are closed first, so that a stream that was restored without
// them opens the same ones in their place.
std::size_t SampleStream::State::next_turn() const {
  const auto done =
      std::find_if(open.begin(), open.end(), [](const auto& one) { return one.is_done(); });
  return done == open.end() ? turn : static_cast<std::size_t>(done - open.begin());
}

bool SampleStream::State::try_read(std::size_t place, BufferedSample& sample) {
  if (!open[place].next(sample.sample)) {
    close(place);
    return false;
  }
  sample.shard = open[place].shard();
  sample.can_be_read_again = open[place].can_read_again();
  ++samples_in;
  barren_shards = 0;
  barren.clear();
  turn = (place + 1) % open.size();
  return true;
}

void SampleStream::State::close(std::size_t place) {
  open[place].close();
  if (spec.resampled && open[place].is_barren()) barren.insert(shards.drawn(open[place].shard()));
  open.erase(open.begin() + static_cast<std::ptrdiff_t>(place));
  if (place < turn) --turn;
  if (turn == open.size()) turn = 0;
  ++barren_shards;
}

void SampleStream::State::survive(std::size_t place, const Error& fault) {
  const auto then = open[place].survive(fault);
  lost += open[place].lost();
  if (then == detail::PieceReader::After::kNextShard) close(place);
  if (then == detail::PieceReader::After::kEnd) end_early();
}

/// By the policy: what the buffer holds is still given.
void SampleStream::State::end_early() {
  ended = true;
  lost.more = true;
  open.clear();
  next_shard = detail::ShardSequence::kEnd;  // so that a restored stream ends too
}

SampleStream::SampleStream(StreamSpec spec, const io::Opener& opener, FaultLedger& ledger,
                           std::stop_token stop)
    : state_(std::make_unique<State>(std::move(spec), opener, ledger, std::move(stop))) {}

SampleStream::SampleStream(StreamSpec spec, const StreamPosition& position,
                           const io::Opener& opener, FaultLedger& ledger, std::stop_token stop)
    : SampleStream(std::move(spec), opener, ledger, std::move(stop)) {
  state_->restore(position);
}

SampleStream::~SampleStream() = default;
SampleStream::SampleStream(SampleStream&&) noexcept = default;
SampleStream& SampleStream::operator=(SampleStream&&) noexcept = default;

bool SampleStream::next(SampleBlock& block) { return state_->next(block); }

bool SampleStream::next(Sample& sample) { return state_->next_sample(sample); }

std::shared_ptr<const StreamTrail> SampleStream::take_trail() { return state_->take_trail(); }

bool SampleStream::is_draining() const { return state_->is_draining(); }

void SampleStream::prefill(std::size_t samples, std::size_t bytes) {
  if (!state_->permuted) state_->buffer.prefill(state_->read, samples, bytes);
}

std::uint64_t SampleStream::restored_bytes() const { return state_->restored_bytes; }

StreamPosition SampleStream::position() const { return state_->position(); }

}  // namespace millrace::wds
