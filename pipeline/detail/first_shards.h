// first_shards: which shards the streams of a process begin with, as far as that is known before
// their samples are counted.
//
// Threads: a free function, callable from any thread.
#pragma once

#include <string>
#include <vector>

#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// The shards of `options` in which its streams' first samples are if all shards have the same
/// number of samples, and each one's neighbours in the epoch's order, since they never quite have.
/// One comes as often as streams may begin with it. Empty where something else says where they
/// begin: a position, a range. Requires: samples are divided, not shards.
std::vector<std::string> first_shards(const PipelineOptions& options);

}  // namespace millrace::pipeline::detail
