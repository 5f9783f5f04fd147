// Reads samples again by their offsets, to restore a shuffle buffer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/opener.h"
#include "wds/detail/shuffle_buffer.h"
#include "wds/sample_stream.h"

namespace millrace::wds::detail {

struct FetchedSamples {
  std::vector<BufferedSample> samples;
  std::uint64_t bytes = 0;  ///< of shards, unpacked, that were read for them
};

/// The samples at `refs`, in that order. Each shard is read in one pass, skipping wide gaps; up to
/// four at a time. Throws: Corrupt if a shard no longer has a sample there, and as reading does.
FetchedSamples fetch_samples(const std::vector<StreamPosition::SampleRef>& refs,
                             const std::function<std::string(std::uint32_t shard)>& url_of,
                             const io::Opener& opener, const StreamSpec& spec);

}  // namespace millrace::wds::detail
