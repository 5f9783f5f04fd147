// The groups of make_thread_collectives() and make_cluster(): a process's ranks communicate through
// shared memory, device i of one process with device i of the others through a Transport.
//
// Threads: as Collectives.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "io/base/topology.h"
#include "trainer/cluster.h"
#include "trainer/collectives.h"
#include "trainer/transport.h"

namespace millrace::trainer::detail {

struct CollectivesSetup {
  Topology topology = {};
  Transport* transport = nullptr;  ///< borrowed; null for one process
  /// The tag of device 0's messages; device i's is i higher.
  std::uint32_t first_tag = 0;
  ClusterOptions cluster = {};
  ThreadCollectivesOptions options = {};
};

/// One handle for each device of this process.
std::vector<std::unique_ptr<Collectives>> make_group_collectives(const CollectivesSetup& setup);

}  // namespace millrace::trainer::detail
