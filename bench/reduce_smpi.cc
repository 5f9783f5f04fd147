// The collectives of a step on simulated machines, beside the alpha-beta model of `millrace plan`:
// the library's own code over SimGrid's SMPI, up to 1,024 machines on one computer.
//
//   bench/reduce_smpi.sh PROGRAM PROCESSES [PARAMETERS [BUCKET]]
//
// The model's latency and bandwidth are those of the simulated links. Computation takes no
// simulated time. All processes use one memory for their values, which are not looked at.
#include <mpi.h>
#include <smpi/smpi.h>

#include <cstdlib>
#include <functional>
#include <vector>

#include "bench/reduce_times.h"
#include "trainer/cluster.h"
#include "trainer/reduce_cost.h"
#include "trainer/transport.h"

namespace millrace {
namespace {

/// Blocking calls of the process's own thread: a simulated process has no other.
class SimulatedTransport final : public trainer::Transport {
 public:
  void exchange(std::span<const trainer::Outgoing> outgoing,
                std::span<const trainer::Incoming> incoming) override {
    std::vector<MPI_Request> requests;
    for (const trainer::Incoming& one : incoming)
      MPI_Irecv(one.data.data(), static_cast<int>(one.data.size()), MPI_BYTE, one.process,
                static_cast<int>(one.tag), MPI_COMM_WORLD, &requests.emplace_back());
    for (const trainer::Outgoing& one : outgoing)
      MPI_Isend(one.data.data(), static_cast<int>(one.data.size()), MPI_BYTE, one.process,
                static_cast<int>(one.tag), MPI_COMM_WORLD, &requests.emplace_back());
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }
  void abort(const std::string&) noexcept override { MPI_Abort(MPI_COMM_WORLD, 1); }
};

struct Arguments {
  std::size_t parameters = 1U << 20U;
  std::size_t bucket = 1U << 18U;
  trainer::Network network;
};

void run(const Arguments& arguments) {
  trainer::ReduceInput input{
      .values = arguments.parameters, .bucket = arguments.bucket, .network = arguments.network};
  MPI_Comm_rank(MPI_COMM_WORLD, &input.topology.process);
  MPI_Comm_size(MPI_COMM_WORLD, &input.topology.processes);
  SimulatedTransport transport;
  const auto cluster = trainer::make_cluster(input.topology, transport);
  const auto group = cluster->make_group();
  trainer::Collectives& rank = *group.front();
  // One memory for all: only the bucket's size matters.
  const std::span values(static_cast<float*>(SMPI_SHARED_MALLOC(4 * arguments.parameters)),
                         arguments.parameters);
  const auto time_of = [&](const std::function<void()>& call) {
    return bench::seconds_of(
        rank, [] { return MPI_Wtime(); }, call);
  };
  const auto over_buckets = [&](const bench::OnBucket& collective) {
    return time_of([&] { bench::over_buckets(values, arguments.bucket, collective); });
  };
  std::vector<double> votes(6);
  const double vote = time_of([&] { rank.all_reduce(std::span<double>(votes)); });
  const double scatter =
      over_buckets([&](std::span<float> bucket) { rank.reduce_scatter(bucket); });
  const double gather = over_buckets([&](std::span<float> bucket) { rank.all_gather(bucket); });
  if (input.topology.process == 0) {
    const auto model = trainer::reduce_cost(input);
    std::printf(
        "%d simulated machines, %zu parameters in buckets of %zu; latency %.1f us, %.2f GB/s\n",
        input.topology.processes, arguments.parameters, arguments.bucket,
        1e6 * arguments.network.latency, arguments.network.bandwidth / 1e9);
    bench::print_beside_model("reduce-scatter", scatter, model.reduce_scatter);
    bench::print_beside_model("all-gather", gather, model.all_gather);
    bench::print_beside_model("two votes", 2 * vote, model.votes);
  }
  SMPI_SHARED_FREE(values.data());
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 6) {
    std::fprintf(stderr, "reduce_smpi PARAMETERS BUCKET LATENCY_US OVERHEAD_US GBIT_S\n");
    return 2;
  }
  millrace::run({.parameters = std::strtoull(argv[1], nullptr, 10),
                 .bucket = std::strtoull(argv[2], nullptr, 10),
                 .network = {.latency = std::atof(argv[3]) / 1e6,
                             .overhead = std::atof(argv[4]) / 1e6,
                             .bandwidth = std::atof(argv[5]) * 1e9 / 8}});
  MPI_Finalize();
}
