// sample_counts: how many samples each shard has, for streams of equal length.
//
//   spec.counts = sample_counts(opener, *spec.shards);  // null: divide whole shards
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/opener.h"

namespace millrace::wds {

/// The number of samples in each of `shards`, from the indexes beside them; null when one has none.
/// On the network the first shard is asked alone, the others 16 at a time.
/// Throws: as read_sample_count() does, for the first shard whose index is at fault.
std::shared_ptr<const std::vector<std::uint64_t>> sample_counts(const io::Opener& opener,
                                                                std::span<const std::string> shards,
                                                                const std::stop_token& stop = {});

}  // namespace millrace::wds
