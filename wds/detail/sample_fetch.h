// Fetching samples again by where they lie, to restore a shuffle buffer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/opener.h"
#include "wds/detail/shuffle_buffer.h"
#include "wds/sample_stream.h"

namespace millrace::wds::detail {

/// The samples at `refs`, in that order; each shard is read in one pass from its first, skipping
/// wide gaps. Throws: Corrupt when a shard no longer has a sample there, and what reading throws.
std::vector<BufferedSample> fetch_samples(
    const std::vector<StreamPosition::SampleRef>& refs,
    const std::function<std::string(std::uint32_t shard)>& url_of, const io::Opener& opener,
    const ShardOptions& options);

}  // namespace millrace::wds::detail
