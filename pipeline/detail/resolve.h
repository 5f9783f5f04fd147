// Resolving options: checks them, fills in defaults, and plans the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// What the memory is for. The sum is the pipeline's bound.
struct MemoryPlan {
  std::int64_t permits = 1;         ///< batches in the pipeline
  std::size_t blocks_per_lane = 1;  ///< encoded blocks read ahead for each stream
  std::size_t decode_bytes = 0;     ///< encoded bytes that wait for decoding
  std::size_t bound_bytes = 0;      ///< the whole sum
};

/// Checks everything but fields and batch size against memory. Throws: InvalidArgument.
PipelineOptions resolve_options(PipelineOptions options);

/// The streams that this rank owns, ascending.
std::vector<int> owned_streams(const PipelineOptions& options);

/// Fits a pipeline with batches of `batch_bytes` into its budget: fewer batches and less read-ahead
/// before a refusal. Throws: InvalidArgument, with the sum, when even the least does not fit.
MemoryPlan plan_memory(const PipelineOptions& options, std::size_t batch_bytes);

/// Of everything that fixes the order of samples.
std::uint64_t order_fingerprint(const PipelineOptions& options);

}  // namespace millrace::pipeline::detail
