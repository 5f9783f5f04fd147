// Resolving options: checks them and fills in defaults.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// Checks everything but fields and batch size against memory. Throws: InvalidArgument.
PipelineOptions resolve_options(PipelineOptions options);

/// The streams that this process owns, ascending.
std::vector<int> owned_streams(const PipelineOptions& options);

/// Name and value of each option that fixes the order of samples, shards apart.
std::vector<std::pair<std::string, std::string>> order_options(const PipelineOptions& options);

/// A shard's name without folder and query string: the same shards may lie elsewhere when a run is
/// resumed.
std::string base_name(const std::string& url);

/// Of everything that fixes the order of samples.
std::uint64_t order_fingerprint(const PipelineOptions& options);

}  // namespace millrace::pipeline::detail
