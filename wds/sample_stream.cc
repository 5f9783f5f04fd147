#include "wds/sample_stream.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "io/base/error.h"
#include "wds/detail/sample_fetch.h"
#include "wds/detail/shard_sequence.h"
#include "wds/detail/shuffle_buffer.h"
#include "wds/sample_counts.h"
#include "wds/shard_index.h"

namespace millrace::wds {

using detail::BufferedSample;

struct SampleStream::State {
  State(StreamSpec wanted, const io::Opener& borrowed_opener, FaultLedger& borrowed_ledger,
        std::stop_token token)
      : spec(std::move(wanted)),
        opener(borrowed_opener),
        ledger(borrowed_ledger),
        stop(std::move(token)),
        shards(spec),
        buffer(spec),
        read([this](BufferedSample& sample) { return read_sample(sample); }) {
    spec.shard.stop = stop;
    spec.shard.lenient = ledger.policy().lenient;
    if (ledger.policy().concatenated) spec.shard.tar.behind_end = BehindEnd::kRead;
    spec.shard.offset = 0;
  }

  void restore(const StreamPosition& position);
  std::string url_of(std::uint32_t index);
  bool next(SampleBlock& block);
  bool next_sample(Sample& sample);
  bool read_sample(BufferedSample& sample);
  bool at_new_pass() const;
  bool is_draining() const;
  bool try_read(BufferedSample& sample);
  bool next_in_piece(Sample& sample);
  void count_refetched();
  bool open_shard();
  ShardOptions options_of_piece();
  void place_piece(ShardOptions& options);
  void place_by_scan(ShardOptions& options);
  void close_shard();
  void survive(const Error& fault);
  bool is_own(const Error& fault) const;
  std::optional<std::uint64_t> lost_samples(const Error& fault) const;
  std::optional<std::uint64_t> listed_in_piece() const;
  std::optional<std::uint64_t> samples_in_piece(const Error& fault) const;

  StreamSpec spec;
  const io::Opener& opener;
  FaultLedger& ledger;
  std::stop_token stop;
  detail::ShardSequence shards;
  detail::ShuffleBuffer buffer;
  std::function<bool(BufferedSample&)> read;
  std::optional<ShardReader> reader;
  std::optional<detail::ShardPiece> open_piece;  // of the open shard, or of the one being opened
  std::shared_ptr<const ShardIndex> open_index;  // its index, if usable
  std::uint64_t refetched = 0;                   // of its samples; reported to the ledger
  std::uint64_t number = 0;                      // samples of it before the reader's position
  std::uint32_t shard = 0;                       // the open shard, or the next one
  std::uint64_t start_offset = 0;                // where to open it
  std::uint64_t restored_bytes = 0;
  std::uint64_t samples_in = 0;
  std::uint64_t samples_out = 0;
  std::uint64_t earlier_passes = 0;  // samples of earlier passes
  std::size_t barren_shards = 0;     // consecutive shards without a sample
  bool ended = false;                // no more will be read
};

void SampleStream::State::restore(const StreamPosition& position) {
  samples_in = position.samples_in;
  samples_out = position.samples_out;
  shard = position.shard;
  start_offset = position.offset;
  earlier_passes = position.earlier_passes;
  std::vector<BufferedSample> samples = detail::fetch_samples(
      position.buffered, [this](std::uint32_t index) { return url_of(index); }, opener, spec.shard);
  for (const BufferedSample& one : samples) restored_bytes += one.sample.num_bytes();
  buffer.restore(std::move(samples), samples_in - earlier_passes, samples_out - earlier_passes);
}

std::string SampleStream::State::url_of(std::uint32_t index) {
  if (const auto piece = shards.at(index)) return piece->url;
  throw Error(ErrorCode::kInvalidArgument, "the saved position names shard " +
                                               std::to_string(index) + " of a stream that has " +
                                               std::to_string(shards.round()));
}

bool SampleStream::State::next(SampleBlock& block) {
  block.samples.clear();
  block.num_bytes = 0;
  for (Sample sample; !block.full() && next_sample(sample);) block.add(std::move(sample));
  return !block.samples.empty();
}

bool SampleStream::State::next_sample(Sample& sample) {
  // Checked here too: a shuffle buffer is emptied without reading.
  if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "reading was stopped");
  if (spec.max_samples > 0 && samples_out == spec.max_samples) return false;
  BufferedSample picked;
  if (!buffer.next(read, samples_out, picked)) return false;
  sample = std::move(picked.sample);
  ++samples_out;
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
    try {
      if (!reader && !open_shard()) return false;
      if (try_read(sample)) return true;
    } catch (const Error& fault) {
      survive(fault);
    }
  }
  return false;
}

// Whether the next sample is the first of another pass through the stream's shards.
bool SampleStream::State::at_new_pass() const {
  const std::size_t round = shards.round();
  return !spec.resampled && !reader && shard > 0 && start_offset == 0 && round > 0 &&
         shard % round == 0;
}

// Between two passes of one epoch the next epoch is not near.
bool SampleStream::State::is_draining() const {
  return !buffer.held().empty() && (ended || (spec.max_samples == 0 && at_new_pass()));
}

bool SampleStream::State::try_read(BufferedSample& sample) {
  if (!next_in_piece(sample.sample)) {
    close_shard();
    return false;
  }
  sample.shard = shard;
  ++samples_in;
  barren_shards = 0;
  return true;
}

// Without an index a piece is found by counting samples from the shard's beginning, or from where
// its scan has found one. Samples beyond the known count belong to the last piece.
bool SampleStream::State::next_in_piece(Sample& sample) {
  const bool all = open_index || !open_piece->cut();
  const std::uint64_t end = open_piece->first + open_piece->count;
  while (all || open_piece->to_end || number < end) {
    if (!reader->next(sample)) return false;
    count_refetched();
    ++number;
    if (all || (number > open_piece->first && sample.offset >= start_offset)) return true;
  }
  return false;
}

void SampleStream::State::count_refetched() {
  const std::uint64_t all = reader->refetched();
  ledger.count_refetched(open_piece->url, all - std::exchange(refetched, all));
}

bool SampleStream::State::open_shard() {
  open_piece = shards.at(shard);
  open_index = nullptr;
  number = refetched = 0;
  // If a whole round gave nothing, the next one will not either.
  ended = !open_piece || barren_shards > shards.round();
  if (ended) return false;
  const ShardOptions options = options_of_piece();
  reader.emplace(opener, open_piece->url, options);
  return true;
}

ShardOptions SampleStream::State::options_of_piece() {
  ShardOptions options = spec.shard;
  options.offset = start_offset;
  const bool sought = open_piece->cut() && !open_piece->scan;
  if (spec.indexed || sought || ledger.policy().require_index)
    open_index = usable_index(opener, open_piece->url, ledger, stop);
  options.index = open_index;
  if (open_piece->cut()) place_piece(options);
  return options;
}

// Finds the piece's position in its shard, by its index or scan if there is one.
void SampleStream::State::place_piece(ShardOptions& options) {
  if (!open_index) return place_by_scan(options);
  const std::vector<IndexedSample>& samples = open_index->samples;
  const std::uint64_t end =
      open_piece->count == 0 ? samples.size() : open_piece->first + open_piece->count;
  if (open_piece->first >= samples.size() || end > samples.size()) {
    throw Error(ErrorCode::kCorrupt, "index holds fewer samples than were counted",
                {.url = io::printable_url(open_piece->url)});
  }
  options.offset = std::max(start_offset, samples[open_piece->first].offset);
  options.max_samples = end - open_index->sample_at(options.offset);
}

// Damage may lie before the piece, and then it matters that it is read.
void SampleStream::State::place_by_scan(ShardOptions& options) {
  options.offset = 0;
  const ShardScan* scan = open_piece->scan.get();
  if (scan == nullptr || scan->damage || open_piece->first >= scan->blocks.size()) return;
  options.offset = std::max(start_offset, scan->offset_of(open_piece->first));
  number = scan->sample_at(options.offset);
}

void SampleStream::State::close_shard() {
  if (reader) ledger.warn_of(reader->warnings(), open_piece->url);
  reader.reset();
  ++shard;
  start_offset = 0;
  ++barren_shards;
}

void SampleStream::State::survive(const Error& fault) {
  const bool goes_on = reader && reader->can_continue();
  const bool own = is_own(fault);
  if (goes_on && !open_index) ++number;
  if (goes_on && !own) return;
  const OnFault then = goes_on ? ledger.report(fault, reader->lost_samples())
                               : ledger.report_shard(fault, lost_samples(fault));
  if (then == OnFault::kStop) {
    ended = true;
    reader.reset();
    shard = static_cast<std::uint32_t>(shards.round());  // so that a restored stream ends too
  } else if (!goes_on) {
    close_shard();
  }
}

// A faulty sample of another piece is reported by that piece; one before the position was already
// reported.
bool SampleStream::State::is_own(const Error& fault) const {
  if (open_index || !open_piece->cut()) return true;
  return number >= open_piece->first && fault.where().offset.value_or(start_offset) >= start_offset;
}

// How many samples the unreadable rest of the open piece has.
std::optional<std::uint64_t> SampleStream::State::lost_samples(const Error& fault) const {
  if (ledger.policy().on_fault == OnFault::kFail || fault.code() == ErrorCode::kCancelled)
    return {};
  if (reader && open_index) return reader->lost_samples();
  const bool unread_rest = !open_index && open_piece->scan && open_piece->scan->damage;
  const auto all = unread_rest ? listed_in_piece() : samples_in_piece(fault);
  if (open_index || !all) return all;
  if (start_offset > 0 && !open_piece->cut()) return {};  // what was read before was not counted
  const std::uint64_t done = number - std::min(number, open_piece->first);
  return *all - std::min(*all, done);
}

// A scan does not know what lies behind damage; a manifest may.
std::optional<std::uint64_t> SampleStream::State::listed_in_piece() const {
  const auto& listed = ledger.policy().samples_of;
  const auto samples = listed ? listed(open_piece->url) : std::nullopt;
  if (!samples) return {};
  return *samples - std::min(*samples, open_piece->first);
}

std::optional<std::uint64_t> SampleStream::State::samples_in_piece(const Error& fault) const {
  if (open_index && start_offset > 0) {
    const std::uint64_t end =
        open_piece->count == 0 ? open_index->samples.size() : open_piece->first + open_piece->count;
    return end - std::min<std::uint64_t>(end, open_index->sample_at(start_offset));
  }
  if (open_piece->count > 0) return open_piece->count;
  if (open_index) return open_index->samples.size();
  return samples_in_shard(ledger.policy(), fault, opener, open_piece->url, stop);
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

bool SampleStream::is_draining() const { return state_->is_draining(); }

void SampleStream::prefill(std::size_t samples, std::size_t bytes) {
  state_->buffer.prefill(state_->read, samples, bytes);
}

std::uint64_t SampleStream::restored_bytes() const { return state_->restored_bytes; }

StreamPosition SampleStream::position() const {
  StreamPosition position;
  position.samples_out = state_->samples_out;
  position.samples_in = state_->samples_in;
  position.earlier_passes = state_->earlier_passes;
  const bool shard_done = state_->reader && state_->reader->at_end();
  position.shard = state_->shard + (shard_done ? 1 : 0);
  if (!shard_done) {
    position.offset = state_->reader ? state_->reader->position() : state_->start_offset;
  }
  position.buffered = state_->buffer.refs();
  return position;
}

}  // namespace millrace::wds
