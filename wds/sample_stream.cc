#include "wds/sample_stream.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "io/base/error.h"
#include "wds/detail/sample_fetch.h"
#include "wds/detail/shard_sequence.h"
#include "wds/detail/shuffle_buffer.h"
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
    spec.shard.tar.concatenated = ledger.policy().concatenated;
    spec.shard.offset = 0;
  }

  void restore(const StreamPosition& position);
  std::string url_of(std::uint32_t index);
  bool next(SampleBlock& block);
  bool next_sample(StreamSample& sample);
  bool read_sample(BufferedSample& sample);
  bool at_new_pass();
  bool try_read(BufferedSample& sample);
  bool open_shard();
  void use_index(const detail::ShardPiece& piece, ShardOptions& options);
  void close_shard();
  void survive(const Error& fault);

  StreamSpec spec;
  const io::Opener& opener;
  FaultLedger& ledger;
  std::stop_token stop;
  detail::ShardSequence shards;
  detail::ShuffleBuffer buffer;
  std::function<bool(BufferedSample&)> read;
  std::optional<ShardReader> reader;
  std::uint32_t shard = 0;         // the open one, or the next to open
  std::uint64_t start_offset = 0;  // where to open it
  std::uint64_t samples_in = 0;
  std::uint64_t samples_out = 0;
  std::uint64_t earlier_passes = 0;  // samples of the passes before this one
  std::size_t barren_shards = 0;     // in a row without a sample
  bool ended = false;                // no more will be read
};

void SampleStream::State::restore(const StreamPosition& position) {
  samples_in = position.samples_in;
  samples_out = position.samples_out;
  shard = position.shard;
  start_offset = position.offset;
  earlier_passes = position.earlier_passes;
  buffer.restore(detail::fetch_samples(
                     position.buffered, [this](std::uint32_t index) { return url_of(index); },
                     opener, spec.shard),
                 samples_in - earlier_passes, samples_out - earlier_passes);
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
  while (block.samples.size() < SampleBlock::kMaxSamples &&
         block.num_bytes < SampleBlock::kMaxBytes) {
    StreamSample sample;
    if (!next_sample(sample)) break;
    block.num_bytes += sample.sample.num_bytes();
    block.samples.push_back(std::move(sample));
  }
  return !block.samples.empty();
}

bool SampleStream::State::next_sample(StreamSample& sample) {
  // Here too: a shuffle buffer is handed out without reading.
  if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "reading was stopped");
  if (spec.max_samples > 0 && samples_out == spec.max_samples) return false;
  BufferedSample picked;
  if (!buffer.next(read, samples_out, picked)) return false;
  sample.sample = std::move(picked.sample);
  sample.index = samples_out++;
  return true;
}

// The next sample of the stream's shards, faults dealt with as the policy says.
bool SampleStream::State::read_sample(BufferedSample& sample) {
  while (!ended) {
    if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "reading was stopped");
    if (at_new_pass()) {
      if (!buffer.held().empty()) return false;  // first all that the last pass has left
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
bool SampleStream::State::at_new_pass() {
  const std::size_t round = shards.round();
  return !spec.resampled && !reader && shard > 0 && start_offset == 0 && round > 0 &&
         shard % round == 0;
}

bool SampleStream::State::try_read(BufferedSample& sample) {
  if (!reader->next(sample.sample)) {
    close_shard();
    return false;
  }
  sample.shard = shard;
  ++samples_in;
  barren_shards = 0;
  return true;
}

bool SampleStream::State::open_shard() {
  const auto piece = shards.at(shard);
  // A whole round that gave nothing will give nothing the next time either.
  ended = !piece || barren_shards > shards.round();
  if (ended) return false;
  ShardOptions options = spec.shard;
  options.offset = start_offset;
  if (spec.indexed || piece->first > 0 || piece->count > 0) use_index(*piece, options);
  reader.emplace(opener, piece->url, options);
  return true;
}

// Finds the piece's place in its shard by the index beside it.
void SampleStream::State::use_index(const detail::ShardPiece& piece, ShardOptions& options) {
  options.index = find_index(opener, piece.url, stop);
  if (piece.first == 0 && piece.count == 0) return;
  const Where where{.url = io::printable_url(piece.url)};
  if (!options.index)
    throw Error(ErrorCode::kNotFound, "a shard that is cut needs its index", where);
  const std::vector<IndexedSample>& samples = options.index->samples;
  const std::uint64_t end = piece.count == 0 ? samples.size() : piece.first + piece.count;
  if (piece.first >= samples.size() || end > samples.size()) {
    throw Error(ErrorCode::kCorrupt, "index holds fewer samples than were counted", where);
  }
  options.offset = std::max(start_offset, samples[piece.first].offset);
  options.max_samples = end - options.index->sample_at(options.offset);
}

void SampleStream::State::close_shard() {
  if (reader) {
    const Where where{.url = io::printable_url(shards.at(shard)->url)};
    if (reader->warnings().missing_end > 0) ledger.warn(where, "tar ends without its end marker");
    if (reader->warnings().trailing_data > 0) ledger.warn(where, "data after the tar's end marker");
  }
  reader.reset();
  ++shard;
  start_offset = 0;
  ++barren_shards;
}

void SampleStream::State::survive(const Error& fault) {
  const std::uint64_t lost = reader ? reader->lost_samples() : 1;
  if (ledger.report(fault, lost) == OnFault::kStop) {
    ended = true;
    reader.reset();
    shard = static_cast<std::uint32_t>(shards.round());  // so that a restored stream ends as well
  } else if (!reader || !reader->can_continue()) {
    close_shard();
  }
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
  for (const BufferedSample& one : state_->buffer.held()) {
    position.buffered.push_back({one.shard, one.sample.offset});
  }
  return position;
}

}  // namespace millrace::wds
