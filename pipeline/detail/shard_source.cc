#include "pipeline/detail/shard_source.h"

#include <utility>

#include "io/opener.h"
#include "pipeline/detail/field_decoder.h"
#include "pipeline/epoch_length.h"
#include "pipeline/slots.h"
#include "wds/mix_draws.h"
#include "wds/sample_access.h"
#include "wds/sample_selection.h"

namespace millrace::pipeline::detail {
namespace {

/// A stream of shards, and shares of what it borrows.
template <typename Shards>
class ShardStream final : public SampleSource::Stream {
 public:
  /// `open(opener, ledger)` makes the stream.
  template <typename Open>
  ShardStream(std::shared_ptr<const io::Opener> opener, std::shared_ptr<wds::FaultLedger> ledger,
              const Open& open)
      : opener_(std::move(opener)), ledger_(std::move(ledger)), stream_(open(*opener_, *ledger_)) {}

  bool next(wds::SampleBlock& block) override { return stream_.next(block); }
  wds::StreamPosition position() const override { return stream_.position(); }
  bool is_draining() const override { return stream_.is_draining(); }
  void prefill(std::size_t samples, std::size_t bytes) override { stream_.prefill(samples, bytes); }
  std::uint64_t restored_bytes() const override { return stream_.restored_bytes(); }

 private:
  std::shared_ptr<const io::Opener> opener_;
  std::shared_ptr<wds::FaultLedger> ledger_;
  Shards stream_;
};

/// `list`'s elements from `first` on, as a list of its own; null of null.
template <typename T>
std::shared_ptr<const std::vector<T>> piece(const std::shared_ptr<const std::vector<T>>& list,
                                            std::size_t first, std::size_t count) {
  if (!list) return nullptr;
  const auto begin = list->begin() + static_cast<std::ptrdiff_t>(first);
  return std::make_shared<const std::vector<T>>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

std::shared_ptr<const wds::SetContents> contents_piece(const wds::SetContents& all,
                                                       std::size_t first, std::size_t count) {
  auto part = std::make_shared<wds::SetContents>();
  for (std::size_t i = first; i < first + count; ++i) {
    part->shards.push_back(all.shards[i]);
    part->shards.back().first = part->count;
    part->count += all.shards[i].count();
  }
  return part;
}

/// In each set's pass, where an epoch is the first of them; empty: as many as samples are kept.
std::vector<std::uint64_t> draws_of_mix(const PipelineOptions& options) {
  const auto& selection = options.found.selection;
  const bool drops = options.mix.end == wds::MixEnd::kDrop;
  if (!selection || !selection->has_shares() || drops || options.epochs.passes > 0) return {};
  const auto length = global_samples_per_epoch(options);
  if (!length) return {};
  std::vector<double> weights;
  for (const MixOptions::Part& part : options.mix.parts) weights.push_back(part.weight);
  return wds::mix_draws(weights, wds::num_streams(options.split),
                        static_cast<std::uint64_t>(*length));
}

/// Of the set whose first shard is number `first`, and which has `count` samples.
std::shared_ptr<const wds::SampleSelection> part_of_selection(const wds::FoundShards& all,
                                                              std::size_t first,
                                                              const MixOptions::Part& part,
                                                              std::uint64_t draws,
                                                              std::uint64_t count) try {
  const std::uint64_t before = all.contents->shards[first].first;
  return all.selection->part(before + part.range.skip, part.range.of(count), before, draws);
} catch (Error& error) {
  error.annotate({.url = all.contents->shards[first].url});
  throw;
}

}  // namespace

ShardSource::ShardSource(const PipelineOptions& options)
    : spec_(stream_spec(options)), mix_(options.mix), opener_(options.opener) {
  spec_.shard.suffixes = wanted_suffixes(options.fields);
  if (mix_.parts.empty()) return;
  mix_samples_ = global_samples_per_epoch(options);
  parts_ = parts_of_mix(draws_of_mix(options));
}

std::unique_ptr<SampleSource::Stream> ShardSource::open(const Request& request) const {
  wds::StreamSpec spec = spec_;
  spec.stream = request.stream;
  spec.epoch = request.epoch;
  spec.max_samples = request.max_samples;
  spec.restored = request.restored;
  spec.shard.listed = request.keys_only;
  if (!mix_.parts.empty()) return open_mix(spec, request);
  return std::make_unique<ShardStream<wds::SampleStream>>(
      opener_, request.ledger, [&](const io::Opener& opener, wds::FaultLedger& ledger) {
        return request.start ? wds::SampleStream(spec, *request.start, opener, ledger, request.stop)
                             : wds::SampleStream(spec, opener, ledger, request.stop);
      });
}

std::vector<wds::MixPart> ShardSource::parts_of_mix(const std::vector<std::uint64_t>& draws) const {
  std::vector<wds::MixPart> parts;
  std::size_t first = 0;
  for (const MixOptions::Part& part : mix_.parts) {
    wds::StreamSpec spec = spec_;
    const wds::FoundShards& all = spec_.found;
    spec.shards = piece(spec_.shards, first, part.num_shards);
    spec.found.counts = piece(all.counts, first, part.num_shards);
    spec.found.scans = piece(all.scans, first, part.num_shards);
    spec.range = part.range;
    spec.max_samples = 0;
    if (all.contents) spec.found.contents = contents_piece(*all.contents, first, part.num_shards);
    if (all.selection)
      spec.found.selection = part_of_selection(
          all, first, part, draws.empty() ? 0 : draws[parts.size()], spec.found.contents->count);
    parts.push_back({.spec = std::move(spec), .weight = part.weight});
    first += part.num_shards;
  }
  return parts;
}

std::unique_ptr<SampleSource::Stream> ShardSource::open_mix(const wds::StreamSpec& whole,
                                                            const Request& request) const {
  wds::MixedStream::Options options{
      .end = mix_.end,
      .stream = request.stream,
      .num_streams = request.num_streams,
      .samples = mix_samples_ ? stream_share(*mix_samples_, request.num_streams, request.stream)
                              : wds::MixedStream::kNoEnd};
  for (const wds::MixPart& part : parts_) {
    wds::StreamSpec spec = part.spec;
    spec.epoch = whole.epoch;
    spec.shard = whole.shard;
    spec.restored = whole.restored;
    options.parts.push_back({.spec = std::move(spec), .weight = part.weight});
  }
  return std::make_unique<ShardStream<wds::MixedStream>>(
      opener_, request.ledger, [&](const io::Opener& opener, wds::FaultLedger& ledger) {
        return wds::MixedStream(options, request.start, opener, ledger, request.stop);
      });
}

}  // namespace millrace::pipeline::detail

namespace millrace::pipeline {

std::shared_ptr<const SampleSource> source_of(const PipelineOptions& options) {
  return options.source ? options.source : std::make_shared<const detail::ShardSource>(options);
}

}  // namespace millrace::pipeline
