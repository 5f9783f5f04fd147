// What of a step's sums over processes backward and forward hide, beside the alpha-beta model of
// `millrace plan`.
//
//   mpirun -np 4 --bind-to none reduce_bench [PARAMETERS]
//
// The model's latency, bandwidth and adding are measured first: a vote of six doubles, an
// all-gather and a reduce-scatter of PARAMETERS / 2 floats. Then each figure is printed beside what
// the model makes of these three. Forward and backward are waits, so that they take no core from
// the sums. Meaningful figures need a core for each process.
#include <chrono>
#include <cstdlib>
#include <thread>

#include "bench/reduce_times.h"
#include "trainer/cluster.h"
#include "trainer/detail/weight_gather.h"
#include "trainer/gradient_reducer.h"
#include "trainer/mpi/mpi_processes.h"

namespace millrace {
namespace {

using trainer::Collectives;

constexpr int kRounds = 41;
constexpr int kStages = 50;  ///< of a pass over the model

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A pass of so many seconds, of which stage(i) ends the i-th part, i from 1.
void pass(double seconds, const std::function<void(std::size_t)>& stage) {
  for (std::size_t i = 1; i <= kStages; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds / kStages));
    stage(i);
  }
}

/// Seconds that a step's reducer leaves exposed behind a backward of so long.
double exposed_sums(Collectives& rank, Collectives& group, std::vector<float>& values,
                    double backward) {
  trainer::BucketReducer reducer(values, group);
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    rank.barrier();
    reducer.begin();
    pass(backward,
         [&](std::size_t stage) { reducer.gradients_ready(values.size() * stage / kStages); });
    rank.barrier();
    const double start = now();
    reducer.wait();
    rounds.push_back(now() - start);
  }
  return bench::median(rounds);
}

/// Seconds that a forward of so long waits for weights.
double exposed_gather(Collectives& rank, Collectives& group, std::size_t parameters,
                      double forward) {
  const auto backend = trainer::make_cpu_backend();
  const trainer::DeviceBuffer weights = backend->allocate(parameters);
  const auto reducer = backend->make_reducer(weights.span, group, {});
  trainer::detail::WeightGather gather(*backend, weights.span, reducer->buckets(), group);
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    rank.barrier();
    double waited = 0;
    gather.begin();
    const auto need = [&](std::size_t offset) {
      const double start = now();
      gather.wait_for(offset);
      waited += now() - start;
    };
    need(parameters - 1);
    pass(forward, [&](std::size_t stage) { need(parameters - parameters * stage / kStages); });
    rounds.push_back(waited);
  }
  return bench::median(rounds);
}

void run(std::size_t parameters) {
  trainer::MpiProcesses processes;
  trainer::ReduceInput input{.topology = processes.topology(1), .values = parameters};
  input.topology.node_processes = 1;
  const auto cluster = trainer::make_cluster(input.topology, processes.transport());
  const auto control = cluster->make_group();
  const auto gradients = cluster->make_group();
  const auto weights = cluster->make_group();
  Collectives& rank = *control.front();
  std::vector<float> values(parameters, 1.0F);
  const bench::ReduceTimes times(rank, now, kRounds);
  times.measure(values, input);
  const double scatter = times.of(1, [&] { rank.reduce_scatter(values); });
  const double gather = times.of(1, [&] { rank.all_gather(std::span<float>(values)); });
  input.backward = 1.5 * scatter;
  input.forward = 1.5 * gather;
  const double sums_left = exposed_sums(rank, *gradients.front(), values, input.backward);
  const double gather_left = exposed_gather(rank, *weights.front(), parameters, input.forward);
  if (input.topology.process != 0) return;
  const auto model = trainer::reduce_cost(input);
  std::printf("%d processes, %zu parameters; latency %.1f us, %.2f GB/s, adding %.2f ns\n",
              input.topology.processes, parameters, 1e6 * input.network.latency,
              input.network.bandwidth / 1e9, 1e9 * input.add);
  bench::print_beside_model("reduce-scatter, alone", scatter, model.reduce_scatter);
  bench::print_beside_model("all-gather, alone", gather, model.all_gather);
  bench::print_beside_model("exposed behind the two passes", sums_left + gather_left,
                            model.exposed - model.votes);
  bench::print_beside_model("hidden in the two passes", scatter + gather - sums_left - gather_left,
                            model.hidden);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const long parameters = argc > 1 ? std::atol(argv[1]) : 0;
  millrace::run(parameters > 0 ? static_cast<std::size_t>(parameters) : 25'557'032);
}
