// What of a step's sums over processes backward and forward hide, beside the alpha-beta model of
// `millrace plan`.
//
//   mpirun -np 4 --bind-to none reduce_bench [PARAMETERS]
//
// The model's latency, bandwidth and adding come from a vote of six doubles and from the gather and
// the sums of the first half of the buckets; what is predicted from them is the whole, and a step
// with its two passes. Everything is measured once in each round, and the lower quartile of the
// rounds is taken: other work on the machine only adds. Forward and backward are waits, so that
// they take no core from the sums. Meaningful figures need a core for each process.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "bench/reduce_times.h"
#include "trainer/cluster.h"
#include "trainer/detail/step/weight_gather.h"
#include "trainer/gradient_reducer.h"
#include "trainer/mpi/mpi_processes.h"
#include "trainer/reduce_cost.h"

namespace millrace {
namespace {

using trainer::Collectives;

constexpr int kRounds = 60;
constexpr int kVotes = 50;    ///< of a round
constexpr int kStages = 200;  ///< of a pass over the model

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double lower_quartile(std::vector<double> values) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

/// A pass of so many seconds, of which stage(i) ends the i-th part, i from 1. Returns how long the
/// stages made it wait.
double pass(double seconds, const std::function<void(std::size_t)>& stage) {
  double waited = 0;
  double end = now();
  for (std::size_t i = 1; i <= kStages; ++i) {
    end += seconds / kStages;
    std::this_thread::sleep_for(std::chrono::duration<double>(end - now()));
    const double start = now();
    stage(i);
    const double took = now() - start;
    waited += took;
    end += took;
  }
  return waited;
}

/// What one round measured, in seconds.
struct Round {
  double vote = 0;
  double half_gather = 0;
  double half_scatter = 0;
  double gather = 0;
  double scatter = 0;
  double exposed = 0;  ///< by the two passes
};

class Bench {
 public:
  Bench(std::size_t parameters, const Topology& topology, trainer::Cluster& cluster)
      : rank_(cluster.make_group()),
        gradients_(cluster.make_group()),
        weights_(cluster.make_group()),
        values_(parameters, 1.0F),
        input_{.topology = topology, .values = parameters},
        backend_(trainer::make_cpu_backend()),
        memory_(backend_->allocate(parameters)),
        reducer_(values_, *gradients_.front(), {.bucket_floats = input_.bucket}),
        gather_(*backend_, memory_.span, reducer_.buckets(), *weights_.front()) {}

  void run() {
    measure_alone();
    input_.backward = 1.5 * quartile(&Round::scatter);
    input_.forward = 1.5 * quartile(&Round::gather);
    for (Round& round : rounds_) round.exposed = exposed_sums() + exposed_gather();
    set_model();
  }

  void print() const {
    const auto model = trainer::reduce_cost(input_);
    std::printf("%d processes, %zu parameters; latency %.1f us, %.2f GB/s, adding %.2f ns\n",
                input_.topology.processes, input_.values, 1e6 * input_.network.latency,
                input_.network.bandwidth / 1e9, 1e9 * input_.add);
    const double alone = quartile(&Round::scatter) + quartile(&Round::gather);
    const double exposed = quartile(&Round::exposed);
    const double passes = input_.forward + input_.backward;
    bench::print_beside_model("reduce-scatter, alone", quartile(&Round::scatter),
                              model.reduce_scatter);
    bench::print_beside_model("all-gather, alone", quartile(&Round::gather), model.all_gather);
    bench::print_beside_model("hidden in the two passes", alone - exposed, model.hidden);
    bench::print_beside_model("exposed by the two passes", exposed, model.exposed - model.votes);
    bench::print_beside_model("a step: its passes and what shows", passes + exposed,
                              passes + model.exposed - model.votes);
  }

 private:
  void measure_alone() {
    std::vector<double> votes(6);
    const std::span<float> all(values_);
    const std::size_t buckets = reducer_.buckets().size();
    const std::span<float> half = all.first(std::min(all.size(), buckets / 2 * input_.bucket));
    const bench::OnBucket scatter = [&](std::span<float> bucket) {
      rank_.front()->reduce_scatter(bucket);
    };
    const bench::OnBucket gather = [&](std::span<float> bucket) {
      rank_.front()->all_gather(bucket);
    };
    const auto time_of = [&](std::span<float> values, const bench::OnBucket& collective) {
      return bench::seconds_of(*rank_.front(), now,
                               [&] { bench::over_buckets(values, input_.bucket, collective); });
    };
    for (int i = 0; i < kRounds; ++i) {
      Round round;
      round.vote = bench::seconds_of(*rank_.front(), now,
                                     [&] {
                                       for (int vote = 0; vote < kVotes; ++vote)
                                         rank_.front()->all_reduce(std::span<double>(votes));
                                     }) /
                   kVotes;
      round.half_gather = time_of(half, gather);
      round.gather = time_of(all, gather);
      round.half_scatter = time_of(half, scatter);
      round.scatter = time_of(all, scatter);
      rounds_.push_back(round);
    }
    num_half_ = half.size();
  }

  /// Seconds that a step's reducer leaves exposed behind a backward.
  double exposed_sums() {
    rank_.front()->barrier();
    reducer_.begin();
    pass(input_.backward,
         [&](std::size_t stage) { reducer_.gradients_ready(values_.size() * stage / kStages); });
    return bench::seconds_of(*rank_.front(), now, [&] { reducer_.wait(); });
  }

  /// Seconds that a forward waits for weights.
  double exposed_gather() {
    rank_.front()->barrier();
    gather_.begin();
    const std::size_t last = values_.size() - 1;
    const double start = now();
    gather_.wait_for(last);
    const double first = now() - start;
    return first + pass(input_.forward, [&](std::size_t stage) {
             gather_.wait_for(values_.size() - values_.size() * stage / kStages);
           });
  }

  double quartile(double Round::*what) const {
    std::vector<double> values;
    for (const Round& round : rounds_) values.push_back(round.*what);
    return lower_quartile(values);
  }

  /// Each process is taken for a machine of its own.
  void set_model() {
    const double vote = quartile(&Round::vote);
    const double buckets = static_cast<double>(num_half_) / static_cast<double>(input_.bucket);
    const double received =
        static_cast<double>(num_half_) * (1.0 - 1.0 / input_.topology.processes);
    const double bytes_time = quartile(&Round::half_gather) - buckets * vote;
    input_.network = {.latency = vote / std::log2(input_.topology.processes),
                      .overhead = 0.0,
                      .bandwidth = 4.0 * received / std::max(1e-9, bytes_time)};
    input_.add =
        std::max(0.0, quartile(&Round::half_scatter) - quartile(&Round::half_gather)) / received;
  }

  std::vector<std::unique_ptr<Collectives>> rank_;
  std::vector<std::unique_ptr<Collectives>> gradients_;
  std::vector<std::unique_ptr<Collectives>> weights_;
  std::vector<float> values_;
  trainer::ReduceInput input_;
  std::unique_ptr<trainer::ComposedBackend> backend_;
  trainer::DeviceBuffer memory_;
  trainer::BucketReducer reducer_;
  trainer::detail::WeightGather gather_;
  std::vector<Round> rounds_;
  std::size_t num_half_ = 0;
};

void run(std::size_t parameters) {
  trainer::MpiProcesses processes;
  Topology topology = processes.topology(1);
  topology.node_processes = 1;
  const auto cluster = trainer::make_cluster(topology, processes.transport());
  Bench bench(parameters, topology, *cluster);
  bench.run();
  if (topology.process == 0) bench.print();
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const long parameters = argc > 1 ? std::atol(argv[1]) : 0;
  millrace::run(parameters > 0 ? static_cast<std::size_t>(parameters) : 25'557'032);
}
