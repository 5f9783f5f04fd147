// Resolving options: checks them and fills in defaults.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// Checks everything but fields and batch size against memory. Throws: InvalidArgument.
PipelineOptions resolve_options(PipelineOptions options);

/// The streams that this rank owns, ascending.
std::vector<int> owned_streams(const PipelineOptions& options);

/// Of everything that fixes the order of samples.
std::uint64_t order_fingerprint(const PipelineOptions& options);

}  // namespace millrace::pipeline::detail
