// Whether all processes of a run see the same shards: on hosts without a shared file system each
// has its own copy of them. fit() and evaluate() compare their feeds' identities; a program whose
// processes work apart calls this itself.
//
// Threads: as Cluster.
#pragma once

#include <optional>
#include <string>

#include "pipeline/data_identity.h"
#include "trainer/cluster.h"

namespace millrace::trainer {

/// Compares what process 0's `own` says of the shards (list, counts, sizes, checksums) and of the
/// order of their samples with every other process's; nullopt is not compared. `what`: "training
/// set". A collective. Throws, on every process: Corrupt, naming a shard, both hosts and what they
/// have; InvalidArgument for another order.
void check_same_data(Cluster& cluster, const std::string& what,
                     const std::optional<pipeline::DataIdentity>& own);

}  // namespace millrace::trainer
