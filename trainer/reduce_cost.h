// ReduceCost: what a step's sums over processes take, by the alpha-beta model: a message costs a
// latency and its sender's overhead, its bytes the slowest link's bandwidth, and what is received
// in a sum is added. Messages that a process sends at once wait for one latency together.
//
//   const ReduceCost cost = reduce_cost({.topology = {.processes = 8}, .values = 25'000'000,
//                                        .network = {.latency = 20e-6, .bandwidth = 3.1e9},
//                                        .backward = 0.2});
//
// As Collectives do it (cluster.h): gradients are summed bucket by bucket while backward runs, each
// once backward has passed it and the ones before are summed; the updated weights are gathered
// bucket by bucket while the next forward pass runs, which waits for those it needs; and two votes
// of a few bytes begin and end a step. Either pass takes as long for each parameter as for another.
// Processes of one machine share its link; what they exchange among themselves is taken to cost
// nothing.
//
// Threads: a pure function.
#pragma once

#include <cstddef>

#include "io/base/topology.h"

namespace millrace::trainer {

/// A machine's link.
struct Network {
  double latency = 20e-6;    ///< seconds until a message arrives
  double overhead = 1e-6;    ///< seconds of the sender's processor per message
  double bandwidth = 3.1e9;  ///< bytes per second, each way
};

struct ReduceInput {
  Topology topology = {};          ///< node_processes processes on each machine
  std::size_t values = 0;          ///< float32 gradients
  std::size_t bucket = 1U << 20U;  ///< values in one
  Network network = {};
  double add = 0;  ///< seconds per value that a process adds to another one
  /// Seconds of each: sums hide in backward but for the last bucket, weights in forward but for the
  /// first.
  double forward = 0;
  double backward = 0;
};

/// Seconds of a step.
struct ReduceCost {
  double reduce_scatter = 0;
  double all_gather = 0;
  double votes = 0;
  double exposed = 0;  ///< of all these, what the step is longer by
  double hidden = 0;   ///< the rest
};

ReduceCost reduce_cost(const ReduceInput& input);

}  // namespace millrace::trainer
