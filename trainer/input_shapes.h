// Whether a batch's arrays are what a model reads: bytes alone would take pictures of another
// layout, or of swapped sides, for its own.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/batch.h"
#include "trainer/nn/graph.h"
#include "trainer/objective.h"

namespace millrace::trainer {

/// Whether an array of shape `given` can be read as one of `wanted`, both with the batch's size as
/// their first dimension: but for dimensions of 1 they are equal, or one of them has a sample's
/// values in a row.
bool is_read_as(std::span<const std::int64_t> given, std::span<const std::int64_t> wanted);

/// Throws: InvalidArgument if one of the objective's inputs is not what the graph reads, images as
/// (N, height, width, channels).
void check_inputs(const nn::Graph& graph, const Objective& objective, const pipeline::Batch& batch);

}  // namespace millrace::trainer
