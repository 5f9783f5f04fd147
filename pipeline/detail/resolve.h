// What follows from the options: checks, defaults, the order's fingerprint, how the memory is
// divided.
#pragma once

#include <cstddef>
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

/// What the memory is for. The sum is the pipeline's bound.
struct MemoryPlan {
  std::int64_t permits = 1;           ///< batches in the pipeline
  std::size_t blocks_per_stream = 1;  ///< encoded blocks read ahead for each stream
  std::size_t decode_bytes = 0;       ///< encoded bytes that wait for decoding
  std::size_t bound_bytes = 0;        ///< the whole sum
};

/// Fits a pipeline with batches of `batch_bytes` into its budget: fewer batches and less read-ahead
/// before a refusal. Requires: resolved options. Throws: InvalidArgument, with the sum, when even
/// the least does not fit.
MemoryPlan plan_memory(const PipelineOptions& options, std::size_t batch_bytes);

}  // namespace millrace::pipeline::detail
