// Runs of several processes and devices in one test: what each step has, and where it stands after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "tests/support/layout.h"

namespace millrace::testing {

/// An epoch's ledgers, of all processes together.
struct EpochSums {
  std::size_t step = 0;  ///< steps until its end
  std::uint64_t emitted = 0;
  std::uint64_t skipped = 0;
  std::uint64_t filtered = 0;
  std::uint64_t unknown_shards = 0;
};

/// What a run gave, step by step; an epoch's end is a step of none.
struct History {
  std::vector<std::vector<std::string>> steps;     ///< the samples of all replicas, sorted
  std::vector<std::vector<std::string>> replicas;  ///< of each, by rank: its slots and samples
  std::vector<std::string> positions;              ///< after each step, joined
  std::vector<EpochSums> epochs;                   ///< of those that ended
};

/// The pipelines of the processes, which step together; `whole` is what one of one device would be.
/// They begin at `from` unless it is empty, and are destroyed after `most` steps unless that is 0.
History run(const pipeline::PipelineOptions& whole, const Layout& layout,
            const std::string& from = {}, std::size_t most = 0);

}  // namespace millrace::testing
