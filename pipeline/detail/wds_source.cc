#include "pipeline/detail/wds_source.h"

#include <memory>
#include <utility>

#include "pipeline/detail/field_decoder.h"

namespace millrace::pipeline::detail {
namespace {

/// A stream, and what it borrows.
class WdsSource final : public SampleSource {
 public:
  WdsSource(const wds::StreamSpec& spec, const SourceRequest& request,
            std::shared_ptr<const io::Opener> opener, std::shared_ptr<wds::FaultLedger> ledger)
      : opener_(std::move(opener)),
        ledger_(std::move(ledger)),
        stream_(request.start
                    ? wds::SampleStream(spec, *request.start, *opener_, *ledger_, request.stop)
                    : wds::SampleStream(spec, *opener_, *ledger_, request.stop)) {}

  bool next(wds::SampleBlock& block) override { return stream_.next(block); }
  wds::StreamPosition position() const override { return stream_.position(); }

 private:
  std::shared_ptr<const io::Opener> opener_;
  std::shared_ptr<wds::FaultLedger> ledger_;
  wds::SampleStream stream_;
};

/// For streams that have no sample at all in a tiny epoch: 0 would mean "no limit".
class EmptySource final : public SampleSource {
 public:
  bool next(wds::SampleBlock&) override { return false; }
  wds::StreamPosition position() const override { return {}; }
};

}  // namespace

std::uint64_t share_of(std::int64_t epoch_samples, int streams, int stream) {
  if (epoch_samples <= stream) return 0;
  return static_cast<std::uint64_t>((epoch_samples - stream + streams - 1) / streams);
}

SourceFactory wds_sources(const PipelineOptions& options, LedgerBook& ledgers) {
  wds::StreamSpec spec;
  spec.shards = std::make_shared<const std::vector<std::string>>(options.shards);
  spec.shuffle = options.shuffle;
  spec.num_streams = options.split.streams;
  spec.processes = options.split.topology.processes;
  spec.process_splitter = options.split.process_splitter;
  spec.worker_splitter = options.split.worker_splitter;
  spec.resampled = options.epochs.resampled;
  spec.indexed = options.indexed;
  spec.counts = options.counts;
  spec.shard.suffixes = wanted_suffixes(options.fields);
  const std::int64_t samples = options.epochs.samples;
  return [spec, samples, opener = options.opener,
          &ledgers](const SourceRequest& request) -> std::unique_ptr<SampleSource> {
    wds::StreamSpec own = spec;
    own.stream = request.stream;
    own.epoch = request.epoch;
    own.max_samples = share_of(samples, spec.num_streams, request.stream);
    if (samples > 0 && own.max_samples == 0) return std::make_unique<EmptySource>();
    return std::make_unique<WdsSource>(own, request, opener, ledgers.of(request.epoch));
  };
}

}  // namespace millrace::pipeline::detail
