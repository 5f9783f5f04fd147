// parallel_write: produces samples on many threads and writes them in order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>

#include "tools/create/sample_source.h"

namespace millrace::tools {

struct ParallelWriteOptions {
  /// Threads that read and encode; 0: one per core.
  int threads = 0;
  std::stop_token stop = {};
};

/// Calls `write` for the samples at `order`'s indices, in that order, one at a time.
/// Order: `order`'s, whatever the number of threads. Buffers: per thread 32 samples, of larger ones
/// as many as have 512 KiB. Throws: as SampleSource::make() and `write`; Cancelled.
void parallel_write(const SampleSource& source, std::span<const std::uint64_t> order,
                    const std::function<void(wds::Sample)>& write,
                    const ParallelWriteOptions& options);

}  // namespace millrace::tools
