#include "pipeline/detail/shard_source.h"

#include <utility>

#include "pipeline/detail/field_decoder.h"
#include "pipeline/slots.h"

namespace millrace::pipeline::detail {
namespace {

/// A SampleStream, and shares of what it borrows.
class ShardStream final : public SampleSource::Stream {
 public:
  ShardStream(const wds::StreamSpec& spec, const SampleSource::Request& request,
              std::shared_ptr<const io::Opener> opener)
      : opener_(std::move(opener)),
        ledger_(request.ledger),
        stream_(request.start
                    ? wds::SampleStream(spec, *request.start, *opener_, *ledger_, request.stop)
                    : wds::SampleStream(spec, *opener_, *ledger_, request.stop)) {}

  bool next(wds::SampleBlock& block) override { return stream_.next(block); }
  wds::StreamPosition position() const override { return stream_.position(); }
  bool is_draining() const override { return stream_.is_draining(); }
  void prefill(std::size_t samples, std::size_t bytes) override { stream_.prefill(samples, bytes); }
  std::uint64_t restored_bytes() const override { return stream_.restored_bytes(); }

 private:
  std::shared_ptr<const io::Opener> opener_;
  std::shared_ptr<wds::FaultLedger> ledger_;
  wds::SampleStream stream_;
};

}  // namespace

ShardSource::ShardSource(const PipelineOptions& options)
    : spec_(stream_spec(options)), opener_(options.opener) {
  spec_.shard.suffixes = wanted_suffixes(options.fields);
}

std::unique_ptr<SampleSource::Stream> ShardSource::open(const Request& request) const {
  wds::StreamSpec spec = spec_;
  spec.stream = request.stream;
  spec.epoch = request.epoch;
  spec.max_samples = request.max_samples;
  return std::make_unique<ShardStream>(spec, request, opener_);
}

std::shared_ptr<const SampleSource> source_of(const PipelineOptions& options) {
  return options.source ? options.source : std::make_shared<const ShardSource>(options);
}

}  // namespace millrace::pipeline::detail
