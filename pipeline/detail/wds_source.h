// The sources in earnest: wds::SampleStream behind SampleSource.
#pragma once

#include <cstdint>

#include "pipeline/detail/ledger_book.h"
#include "pipeline/detail/sample_source.h"
#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// Makes the streams of `options`; `ledgers` is borrowed and outlives the factory and its sources.
SourceFactory wds_sources(const PipelineOptions& options, LedgerBook& ledgers);

/// A stream's samples in an epoch of so many over all streams: the slots j with j mod streams ==
/// stream.
std::uint64_t share_of(std::int64_t epoch_samples, int streams, int stream);

}  // namespace millrace::pipeline::detail
