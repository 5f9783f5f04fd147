// Slots: what fixes which sample is in which of an epoch's slots, for the pipeline and for whoever
// prints or counts them.
//
// Threads: free functions, callable from any thread.
#pragma once

#include "pipeline/options.h"
#include "wds/sample_stream.h"

namespace millrace::pipeline {

/// The streams of the options' shards, of which the caller sets `stream`, `epoch` and
/// `max_samples`. How shards are read (`shard`) is left to the caller, too.
wds::StreamSpec stream_spec(const PipelineOptions& options);

}  // namespace millrace::pipeline
