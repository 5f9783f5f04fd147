// PipelineArguments: what a loader reads and how, before it knows its rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/base/topology.h"
#include "io/http_options.h"
#include "pipeline/pipeline.h"
#include "python/function_pool.h"

namespace millrace::python {

struct PipelineArguments {
  /// All but topology, streams, opener, stop, log and position; specs are expanded when the loader
  /// starts.
  pipeline::Pipeline::Builder builder = {};
  /// SplitOptions::streams; 0: those of the state that is loaded, else by the number of shards
  /// (wds::usual_workers()).
  int streams = 0;
  /// Of io::CacheOptions; an empty folder: no cache.
  std::string cache = {};
  std::uint64_t cache_bytes = 0;
  /// Of decode::DecodedCacheOptions, of each loader's own cache; 0 bytes: none.
  std::uint64_t decoded_bytes = 0;
  std::string decoded_folder = {};
  bool allow_pipe = false;
  /// Of the FunctionFields, in their order, which have no function yet.
  std::vector<FunctionSpec> functions = {};
  /// After which a function that has not returned ends the loader.
  std::chrono::milliseconds function_timeout{60'000};
  /// RetryOptions::patience.
  std::chrono::milliseconds retry_for = io::RetryOptions().patience;

  const pipeline::PipelineOptions& pipeline() const { return builder.options(); }
  /// The names of the batch's fields that hold bfloat16.
  std::vector<std::string> bfloat16_fields() const;
  /// As pipeline::batch_fields(), of which the constructor has made sure that it throws nothing.
  std::vector<pipeline::BatchField> arrays = {};
};

/// The pipeline's options with the shards expanded and their samples counted. It may read folders,
/// manifests, indexes and headers. Throws: as wds::expand_shards() and pipeline::with_counts().
pipeline::PipelineOptions prepare(const PipelineArguments& options, const Topology& topology,
                                  const std::stop_token& stop, const Log& log);

/// `prepared` as another process of a run. Requires: it is from prepare().
void set_topology(pipeline::PipelineOptions& prepared, const PipelineArguments& options,
                  const Topology& topology);

}  // namespace millrace::python
