#include "tools/create/parallel_write.h"

#include <tbb/parallel_pipeline.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "io/base/error.h"
#include "tools/task_arena.h"

namespace millrace::tools {
namespace {

using IndexSpan = std::span<const std::uint64_t>;
using Samples = std::vector<wds::Sample>;

/// Samples passed on together: so many that passing them costs nothing beside them, and so few that
/// a core's cache still has them when they are written.
class ChunkSize {
 public:
  std::size_t now() const { return now_; }

  /// What the latest chunk held decides about the next ones.
  void learn(const Samples& samples) {
    std::size_t bytes = 0;
    for (const wds::Sample& sample : samples)
      for (const wds::Field& field : sample.fields) bytes += field.data.size();
    if (bytes == 0) return;
    now_ = std::clamp<std::size_t>(samples.size() * kBytes / bytes, 1, kMostSamples);
  }

 private:
  static constexpr std::size_t kMostSamples = 16;
  static constexpr std::size_t kBytes = std::size_t{256} << 10;

  std::atomic<std::size_t> now_ = kMostSamples;
};

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
  ChunkSize size;
  const auto take = [&](tbb::flow_control& flow) {
    if (options.stop.stop_requested()) throw Error(ErrorCode::kCancelled, "writing was stopped");
    const IndexSpan chunk = order.first(std::min(order.size(), size.now()));
    order = order.subspan(chunk.size());
    if (chunk.empty()) flow.stop();
    return chunk;
  };
  const auto make = [&](IndexSpan indices) { return make_all(source, indices); };
  const auto put = [&](Samples samples) {
    size.learn(samples);
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
