// Stands in for wds::SampleStream until that has landed: these tests use fake sources.
#include "wds/sample_stream.h"
namespace millrace::wds {
struct SampleStream::State {};
SampleStream::SampleStream(StreamSpec, const io::Opener&, FaultLedger&, std::stop_token) {}
SampleStream::SampleStream(StreamSpec, const StreamPosition&, const io::Opener&, FaultLedger&,
                           std::stop_token) {}
SampleStream::~SampleStream() = default;
SampleStream::SampleStream(SampleStream&&) noexcept = default;
bool SampleStream::next(SampleBlock&) { return false; }
StreamPosition SampleStream::position() const { return {}; }
}  // namespace millrace::wds
