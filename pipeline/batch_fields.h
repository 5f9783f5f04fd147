// batch_fields(): what the batches of a pipeline hold, before there is one; check_values(): whether
// there can be one.
//
//   for (const BatchField& field : batch_fields(options)) print(field.name, field.spec.shape);
//
// Threads: any.
#pragma once

#include <vector>

#include "pipeline/batch.h"
#include "pipeline/options.h"

namespace millrace::pipeline {

/// The arrays of a batch of these options, without data, in their order; RawFields, which are none,
/// are left out. Nothing is opened. Throws: InvalidArgument, as Pipeline() does for its fields, the
/// size of a batch and what it is mixed by.
std::vector<BatchField> batch_fields(const PipelineOptions& options);

/// Refuses what Pipeline() would, whatever the shards are: batches, epochs, shuffling and
/// resources. Nothing is opened. Throws: InvalidArgument.
void check_values(const PipelineOptions& options);

}  // namespace millrace::pipeline
