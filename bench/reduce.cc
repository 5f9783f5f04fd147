// What of a step's sums over processes backward hides, beside the alpha-beta model of `millrace
// plan`.
//
//   mpirun -np 4 --bind-to none reduce_bench [PARAMETERS]
//
// The model's latency and bandwidth are measured first: a vote of six doubles, and a reduce-scatter
// of PARAMETERS / 2 floats. Then each figure is printed beside what the model makes of these two.
// Backward is a wait, so that it takes no core from the sums. Meaningful figures need a core for
// each process.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "bench/medians.h"
#include "trainer/cluster.h"
#include "trainer/gradient_reducer.h"
#include "trainer/mpi/mpi_processes.h"
#include "trainer/reduce_cost.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
using trainer::Collectives;

constexpr int kRounds = 9;
constexpr int kStages = 50;  ///< in which gradients become ready

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Median seconds of a call that all ranks make at once.
double time_of(Collectives& rank, int calls, const std::function<void()>& call) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    rank.barrier();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    rounds.push_back(seconds_since(start) / calls);
  }
  return bench::median(rounds);
}

/// Seconds that a step's reducer leaves exposed behind a backward of so long.
double exposed(Collectives& rank, Collectives& group, std::vector<float>& values, double backward) {
  trainer::BucketReducer reducer(values, group);
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    rank.barrier();
    reducer.begin();
    for (int stage = 1; stage <= kStages; ++stage) {
      std::this_thread::sleep_for(std::chrono::duration<double>(backward / kStages));
      reducer.gradients_ready(values.size() * static_cast<std::size_t>(stage) / kStages);
    }
    rank.barrier();
    const auto start = Clock::now();
    reducer.wait();
    rounds.push_back(seconds_since(start));
  }
  return bench::median(rounds);
}

/// The link as this run shows it: processes of one machine are taken for machines of their own.
trainer::Network measure(Collectives& rank, Topology topology, std::vector<float>& values) {
  std::vector<double> votes(6);
  const double vote = time_of(rank, 200, [&] { rank.all_reduce(std::span<double>(votes)); });
  const std::span<float> half(values.data(), values.size() / 2);
  const double time = time_of(rank, 3, [&] { rank.reduce_scatter(half); });
  const double messages = std::log2(topology.processes);
  const double bytes = 4.0 * static_cast<double>(half.size()) * (1.0 - 1.0 / topology.processes);
  return {.latency = vote / messages, .bandwidth = bytes / std::max(1e-9, time - vote)};
}

void print(const char* what, double measured, double model) {
  std::printf("%-34s %9.2f ms   model %9.2f ms   ratio %.2f\n", what, 1e3 * measured, 1e3 * model,
              measured / model);
}

void run(std::size_t parameters) {
  trainer::MpiProcesses processes;
  Topology topology = processes.topology(1);
  const auto cluster = trainer::make_cluster(topology, processes.transport());
  const auto control = cluster->make_group();
  const auto gradients = cluster->make_group();
  Collectives& rank = *control.front();
  std::vector<float> values(parameters, 1.0F);
  topology.node_processes = 1;
  const trainer::Network network = measure(rank, topology, values);
  const double scatter = time_of(rank, 1, [&] { rank.reduce_scatter(values); });
  const double gather = time_of(rank, 1, [&] { rank.all_gather(std::span<float>(values)); });
  const double backward = 1.5 * scatter;
  const double left = exposed(rank, *gradients.front(), values, backward);
  if (topology.process != 0) return;
  const auto model = trainer::reduce_cost(
      {.topology = topology, .values = parameters, .network = network, .backward = backward});
  std::printf("%d processes, %zu parameters; latency %.1f us, %.2f GB/s\n", topology.processes,
              parameters, 1e6 * network.latency, network.bandwidth / 1e9);
  print("reduce-scatter, alone", scatter, model.reduce_scatter);
  print("all-gather", gather, model.all_gather);
  print("reduce-scatter, behind backward", left, model.exposed - model.all_gather - model.votes);
  print("reduce-scatter, hidden", scatter - left, model.hidden);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const long parameters = argc > 1 ? std::atol(argv[1]) : 0;
  millrace::run(parameters > 0 ? static_cast<std::size_t>(parameters) : 25'557'032);
}
