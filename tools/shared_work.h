// shared_work: a set's shards divided over the processes of a run: shard i belongs to
// process i mod processes, and process 0 gets all results, in the order of the shards.
//
//   std::vector<nlohmann::json> own;
//   for (const std::string& shard : own_shards(shards, processes.topology())) own.push_back(...);
//   for (const auto& one : in_shard_order(processes.cluster(), own)) ...
//
// Threads: one at a time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/base/topology.h"
#include "io/opener.h"
#include "trainer/cluster.h"
#include "wds/shard_writer.h"

namespace millrace::tools {

std::vector<std::string> own_shards(const std::vector<std::string>& shards,
                                    const Topology& topology);

/// Every process calls it, and gets all. `own`: one result for each of its shards.
std::vector<nlohmann::json> in_shard_order(trainer::Cluster& cluster,
                                           const std::vector<nlohmann::json>& own);

/// A set's shards of which each process has written its own: all, in their order, on every
/// process.
std::vector<wds::ShardSummary> all_summaries(trainer::Cluster& cluster,
                                             const std::vector<wds::ShardSummary>& own);
/// Writes their manifest, a file or a url by `opener`. `pictures`: Manifest::pictures.
void write_set_manifest(const io::Opener& opener, const std::vector<wds::ShardSummary>& shards,
                        const std::string& path, const wds::StoredPictures& pictures);

/// One result of each process, in the order of the processes.
std::vector<nlohmann::json> of_processes(trainer::Cluster& cluster, const nlohmann::json& own);

}  // namespace millrace::tools
