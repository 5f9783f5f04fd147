// Runs of several processes and devices in one test: what each step has, and where it stands after.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "tests/support/layout.h"

namespace millrace::testing {

/// What a run gave, step by step; an epoch's end is a step of none.
struct History {
  std::vector<std::vector<std::string>> steps;     ///< the samples of all replicas, sorted
  std::vector<std::vector<std::string>> replicas;  ///< of each, by rank: its slots and samples
  std::vector<std::string> positions;              ///< after each step, joined
};

/// The pipelines of the processes, which step together; `whole` is what one of one device would be.
/// They begin at `from` unless it is empty, and are destroyed after `most` steps unless that is 0.
History run(const pipeline::PipelineOptions& whole, const Layout& layout,
            const std::string& from = {}, std::size_t most = 0);

}  // namespace millrace::testing
