// MemoryPlan: how the memory budget is divided.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// What the memory is for. The sum is the pipeline's bound.
struct MemoryPlan {
  std::int64_t permits = 1;         ///< batches in the pipeline
  std::size_t blocks_per_lane = 1;  ///< encoded blocks read ahead for each stream
  std::size_t decode_bytes = 0;     ///< encoded bytes that wait for decoding
  std::size_t bound_bytes = 0;      ///< the whole sum
};

/// Fits a pipeline with batches of `batch_bytes` into its budget: fewer batches and less read-ahead
/// before a refusal. Requires: resolved options. Throws: InvalidArgument, with the sum, when even
/// the least does not fit.
MemoryPlan plan_memory(const PipelineOptions& options, std::size_t batch_bytes);

}  // namespace millrace::pipeline::detail
