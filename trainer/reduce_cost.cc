#include "trainer/reduce_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <vector>

namespace millrace::trainer {
namespace {

bool is_power_of_two(int value) { return std::has_single_bit(static_cast<unsigned>(value)); }

/// Whether partners halve what they exchange, as detail/collectives/partners.h.
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

/// When the buckets, one after the other, are summed behind backward's end. The caller sums the
/// last one; each can start when backward has passed its end.
double sums_behind(const ReduceInput& input, const std::vector<double>& buckets,
                   const std::function<double(double)>& time_of) {
  const auto values = static_cast<double>(input.values);
  double ready = 0;
  double finish = 0;
  for (const double bucket : buckets) {
    ready += bucket / values * input.backward;
    finish = std::max(finish, ready) + time_of(bucket);
  }
  return finish - input.backward;
}

/// How long forward waits for weights, which arrive from the last bucket on, as it needs them.
double forward_waits(const ReduceInput& input, const std::vector<double>& buckets,
                     const std::function<double(double)>& time_of) {
  const auto values = static_cast<double>(input.values);
  double arrival = 0;
  double now = 0;
  for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
    arrival += time_of(*bucket);
    now = std::max(now, arrival) + *bucket / values * input.forward;
  }
  return now - input.forward;
}

/// The sizes of the buckets: all but the last one are full.
std::vector<double> buckets_of(const ReduceInput& input) {
  std::vector<double> buckets;
  for (std::size_t at = 0; at < input.values; at += input.bucket)
    buckets.push_back(static_cast<double>(std::min(input.bucket, input.values - at)));
  return buckets;
}

}  // namespace

ReduceCost reduce_cost(const ReduceInput& input) {
  const Topology& topology = input.topology;
  if (topology.processes <= topology.node_processes || input.values == 0) return {};
  const double messages = time_of_messages(input);
  const auto gather_time = [&](double values) {
    return messages + bytes_between(topology, 4.0 * values) / input.network.bandwidth;
  };
  // Each process adds up what it receives.
  const auto sum_time = [&](double values) {
    return gather_time(values) + values * (1.0 - 1.0 / topology.processes) * input.add;
  };
  const std::vector<double> buckets = buckets_of(input);
  ReduceCost cost{.votes = 2.0 * messages};
  for (const double bucket : buckets) {
    cost.reduce_scatter += sum_time(bucket);
    cost.all_gather += gather_time(bucket);
  }
  cost.exposed = cost.votes + sums_behind(input, buckets, sum_time) +
                 forward_waits(input, buckets, gather_time);
  // Rounding may leave less than nothing.
  cost.hidden = std::max(0.0, cost.reduce_scatter + cost.all_gather + cost.votes - cost.exposed);
  return cost;
}

}  // namespace millrace::trainer
