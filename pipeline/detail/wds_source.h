// The sources in earnest: wds::SampleStream behind SampleSource.
#pragma once

#include "pipeline/detail/ledger_book.h"
#include "pipeline/detail/sample_source.h"
#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// Makes the streams of `options`; `ledgers` is borrowed and outlives the factory and its sources.
SourceFactory wds_sources(const PipelineOptions& options, LedgerBook& ledgers);

}  // namespace millrace::pipeline::detail
