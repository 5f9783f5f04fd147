// sample_counts: how many samples each shard has, for streams of equal length and to count what is
// lost.
//
//   spec.found.counts = sample_counts(opener, *spec.shards);  // null: divide whole shards
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/opener.h"
#include "wds/fault_ledger.h"
#include "wds/first_indexes.h"

namespace millrace::wds {

/// The number of samples in each of `shards`, from their indexes; null if a shard has no index. On
/// the network 16 at a time. Throws: as read_sample_count(), for the first shard whose index is at
/// fault; Unsupported for Parquet files that list other classes for one column. If `on_damaged` is
/// given, it is called instead for each damaged index, in the shards' order, and may return the
/// count; the result is null if it does not.
using OnDamagedIndex =
    std::function<std::optional<std::uint64_t>(const std::string& shard, const Error& fault)>;
std::shared_ptr<const std::vector<std::uint64_t>> sample_counts(
    const io::Opener& opener, std::span<const std::string> shards, const std::stop_token& stop = {},
    const OnDamagedIndex& on_damaged = {});
/// The same shard by shard: nullopt where there is no index, or `on_damaged` knows no count. On the
/// network, if the first shard has none, none has: no more are asked for than the first 16.
/// `first`, if given, is told of all indexes.
std::vector<std::optional<std::uint64_t>> indexed_counts(const io::Opener& opener,
                                                         std::span<const std::string> shards,
                                                         const std::stop_token& stop = {},
                                                         const OnDamagedIndex& on_damaged = {},
                                                         FirstIndexes* first = nullptr);

/// Samples in the shard at `url`, which `fault` made unreadable: from policy.samples_of, else from
/// its index unless the fault is Io. Nullopt if unknown. Throws: Cancelled.
std::optional<std::uint64_t> samples_in_shard(const FaultPolicy& policy, const Error& fault,
                                              const io::Opener& opener, const std::string& url,
                                              const std::stop_token& stop = {});

}  // namespace millrace::wds
