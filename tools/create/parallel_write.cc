#include "tools/create/parallel_write.h"

#include <tbb/parallel_pipeline.h>

#include <algorithm>
#include <vector>

#include "io/base/error.h"
#include "tools/task_arena.h"

namespace millrace::tools {
namespace {

using IndexSpan = std::span<const std::uint64_t>;
using Samples = std::vector<wds::Sample>;

/// Samples passed on together, so that the overhead of passing is negligible.
constexpr std::size_t kChunk = 16;

Samples make_all(const SampleSource& source, IndexSpan indices) {
  Samples samples;
  samples.reserve(indices.size());
  for (const std::uint64_t index : indices) samples.push_back(source.make(index));
  return samples;
}

}  // namespace

void parallel_write(const SampleSource& source, std::span<const std::uint64_t> order,
                    const std::function<void(wds::Sample)>& write,
                    const ParallelWriteOptions& options) {
  TaskArena threads(options.threads);
  const auto take = [&](tbb::flow_control& flow) {
    if (options.stop.stop_requested()) throw Error(ErrorCode::kCancelled, "writing was stopped");
    const IndexSpan chunk = order.first(std::min(order.size(), kChunk));
    order = order.subspan(chunk.size());
    if (chunk.empty()) flow.stop();
    return chunk;
  };
  const auto make = [&](IndexSpan indices) { return make_all(source, indices); };
  const auto put = [&](Samples samples) {
    for (wds::Sample& sample : samples) write(std::move(sample));
  };
  threads.execute([&] {
    tbb::parallel_pipeline(
        2 * static_cast<std::size_t>(threads.num_threads()),
        tbb::make_filter<void, IndexSpan>(tbb::filter_mode::serial_in_order, take) &
            tbb::make_filter<IndexSpan, Samples>(tbb::filter_mode::parallel, make) &
            tbb::make_filter<Samples, void>(tbb::filter_mode::serial_in_order, put));
  });
}

}  // namespace millrace::tools
