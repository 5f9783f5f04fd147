#include "pipeline/detail/first_shards.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "pipeline/slots.h"
#include "wds/sample_stream.h"
#include "wds/split.h"

namespace millrace::pipeline::detail {
namespace {

/// As many as are read at once, at first.
constexpr std::size_t kMostStreamsAhead = 16;

/// Those of `spec`, whose counts are alike.
void add_first(wds::StreamSpec spec, const std::vector<int>& streams,
               std::vector<std::string>& found) {
  constexpr std::uint64_t kAlike = 1 << 20;
  constexpr std::size_t kFirst = 2;
  spec.found.counts =
      std::make_shared<const std::vector<std::uint64_t>>(spec.shards->size(), kAlike);
  for (const int stream : streams) {
    if (spec.stream = stream - 1; spec.stream >= 0)
      found.push_back(wds::stream_shards(spec).back());
    spec.stream = stream;
    const std::vector<std::string> own = wds::stream_shards(spec);
    found.insert(found.end(), own.begin(),
                 own.begin() + static_cast<std::ptrdiff_t>(std::min(kFirst, own.size())));
  }
}

/// One for each set of a mix.
std::vector<std::size_t> sizes_of_sets(const PipelineOptions& options) {
  if (options.mix.parts.empty()) return {options.shards.size()};
  std::vector<std::size_t> sizes;
  for (const MixOptions::Part& part : options.mix.parts) sizes.push_back(part.num_shards);
  return sizes;
}

}  // namespace

std::vector<std::string> first_shards(const PipelineOptions& options) {
  if (options.resume || !options.range.is_all()) return {};
  wds::StreamSpec spec = stream_spec(options);
  spec.found.scans = nullptr;
  std::vector<int> streams = wds::streams_of_process(options.split);
  streams.resize(std::min(streams.size(), kMostStreamsAhead));
  std::vector<std::string> found;
  auto first = options.shards.begin();
  for (const std::size_t size : sizes_of_sets(options)) {
    const auto end = first + static_cast<std::ptrdiff_t>(size);
    spec.shards = std::make_shared<const std::vector<std::string>>(first, end);
    if (size > 0) add_first(spec, streams, found);
    first = end;
  }
  return found;
}

}  // namespace millrace::pipeline::detail
