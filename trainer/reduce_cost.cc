#include "trainer/reduce_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace millrace::trainer {
namespace {

bool is_power_of_two(int value) { return std::has_single_bit(static_cast<unsigned>(value)); }

/// Whether partners halve what they exchange, as detail/partners.h.
bool halves(const Topology& topology) {
  return is_power_of_two(topology.processes) && is_power_of_two(topology.devices);
}

/// Seconds of the messages between machines that a process waits for in one reduce-scatter: one
/// after the other with partners, else all at once.
double time_of_messages(const ReduceInput& input) {
  const Topology& topology = input.topology;
  const Network& network = input.network;
  if (halves(topology))
    return std::log2(topology.processes / topology.node_processes) *
           (network.latency + network.overhead);
  return network.latency + (topology.processes - topology.node_processes) * network.overhead;
}

/// Bytes that a machine sends in a reduce-scatter of so many.
double bytes_between(const Topology& topology, double bytes) {
  const double nodes = std::ceil(static_cast<double>(topology.processes) / topology.node_processes);
  const double leaving = bytes * (1.0 - 1.0 / nodes);
  // Partners of one machine add up theirs before anything leaves it.
  const bool adds_up = halves(topology) && is_power_of_two(topology.node_processes);
  return adds_up ? leaving : leaving * topology.node_processes;
}

}  // namespace

ReduceCost reduce_cost(const ReduceInput& input) {
  const Topology& topology = input.topology;
  if (topology.processes <= topology.node_processes || input.values == 0) return {};
  const double messages = time_of_messages(input);
  const auto time_of = [&](double values, double rounds) {
    return rounds * messages + bytes_between(topology, 4.0 * values) / input.network.bandwidth;
  };
  const auto values = static_cast<double>(input.values);
  const double buckets = std::ceil(values / static_cast<double>(input.bucket));
  const double last = values - (buckets - 1.0) * static_cast<double>(input.bucket);
  // Each process adds up what it receives.
  const auto time_of_sums = [&](double count, double rounds) {
    return time_of(count, rounds) + count * (1.0 - 1.0 / topology.processes) * input.add;
  };
  ReduceCost cost{.reduce_scatter = time_of_sums(values, buckets),
                  .all_gather = time_of(values, buckets),
                  .votes = 2.0 * messages};
  // The first bucket is ready when its part of backward is over, the last one at its end; forward
  // begins with the last one.
  const double inside = 1.0 - 1.0 / buckets;
  cost.hidden = std::min(cost.reduce_scatter - time_of_sums(last, 1.0), input.backward * inside) +
                std::min(cost.all_gather - time_of(last, 1.0), input.forward * inside);
  cost.exposed = cost.reduce_scatter + cost.all_gather + cost.votes - cost.hidden;
  return cost;
}

}  // namespace millrace::trainer
