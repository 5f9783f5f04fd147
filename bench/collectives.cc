// The cost of having several replicas in one process.
//
//   collectives_bench [STEPS]
//
// First each collective by itself, in µs per call, next to the time in which a cache line passes
// between two threads, the lower bound for any synchronisation. Then training steps of LeNet, two
// devices of batch 64 on synthetic pictures: where a step's time goes, as in the stall report.
// Meaningful figures need two otherwise idle cores.
#include "trainer/collectives.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/medians.h"
#include "device/device.h"
#include "io/base/rng.h"
#include "trainer/fit.h"
#include "trainer/models/models.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
using trainer::Collectives;

constexpr int kRounds = 7;
constexpr int kCalls = 2000;
constexpr std::int64_t kBatch = 64;

double microseconds(Clock::duration time, int calls) {
  return std::chrono::duration<double, std::micro>(time).count() / calls;
}

/// µs per call, the median of several rounds; `work` makes one call on each of two ranks.
double time_of(const std::function<void(Collectives&)>& work) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    auto group = trainer::make_thread_collectives(2);
    const auto run = [&](Collectives& rank) {
      for (int i = 0; i < kCalls; ++i) work(rank);
    };
    const auto start = Clock::now();
    {
      const std::jthread other([&] { run(*group[1]); });
      run(*group[0]);
    }
    rounds.push_back(microseconds(Clock::now() - start, kCalls));
  }
  return bench::median(rounds);
}

// A round trip is two transfers; one is what the earlier of two ranks waits for the later.
double one_way() {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> line{0};
    const auto turns = [&](int first) {
      for (int i = first; i < 2 * kCalls; i += 2) {
        while (line.load(std::memory_order_acquire) != i) {
        }
        line.store(i + 1, std::memory_order_release);
      }
    };
    const auto start = Clock::now();
    {
      const std::jthread other([&] { turns(1); });
      turns(0);
    }
    rounds.push_back(microseconds(Clock::now() - start, 2 * kCalls));
  }
  return bench::median(rounds);
}

void print_call(const char* what, double time, double limit) {
  std::printf("%-36s %8.2f us   a cache line's way %6.2f us, times %.1f\n", what, time, limit,
              time / limit);
}

void time_collectives() {
  const double limit = one_way();
  print_call("barrier", time_of([](Collectives& rank) { rank.barrier(); }), limit);
  const auto reduce = [](std::size_t floats) {
    return time_of([floats](Collectives& rank) {
      thread_local std::vector<float> values;
      values.resize(floats);
      rank.all_reduce(std::span<float>(values));
    });
  };
  print_call("all_reduce, 16 floats", reduce(16), limit);
  print_call("all_reduce, 61,706 floats", reduce(61'706), limit);
  const double scatter = time_of([](Collectives& rank) {
    thread_local std::vector<float> values(61'706);
    rank.reduce_scatter(values);
  });
  print_call("reduce_scatter, 61,706 floats", scatter, limit);
}

/// The same synthetic batch over and over.
class MadeFeed final : public trainer::Feed, public trainer::EpochFeed {
 public:
  explicit MadeFeed(std::int64_t steps) : steps_(steps), pixels_(kBatch * 28 * 28) {
    KeyedRng rng({.seed = 1});
    for (float& pixel : pixels_) pixel = rng.normal();
    for (std::int64_t i = 0; i < kBatch; ++i) labels_.push_back(i % 10);
  }

  std::unique_ptr<EpochFeed> open(std::uint32_t, const pipeline::Position*) override {
    return std::make_unique<MadeFeed>(steps_);
  }
  std::int64_t steps_per_epoch() const override { return steps_; }

  bool next(int replica, pipeline::Batch& batch) override {
    std::int64_t& at = at_[static_cast<std::size_t>(replica)];
    if (at == steps_) return false;
    batch.index = at++;
    batch.size = batch.num_valid = kBatch;
    batch.valid.assign(kBatch, 1);
    batch.fields = {{.name = "image",
                     .spec = {.dtype = decode::DType::kFloat32, .shape = {kBatch, 28, 28, 1}},
                     .data = std::as_writable_bytes(std::span(pixels_))},
                    {.name = "label",
                     .spec = {.dtype = decode::DType::kInt64, .shape = {kBatch}},
                     .data = std::as_writable_bytes(std::span(labels_))}};
    return true;
  }
  void stop() override {}

 private:
  std::int64_t steps_;
  std::vector<float> pixels_;
  std::vector<std::int64_t> labels_;
  std::int64_t at_[2] = {0, 0};
};

void train_lenet(std::int64_t steps) {
  const auto devices = device::DeviceSet::cpu(2);
  trainer::DeviceThreads threads(devices);
  const trainer::GraphModel model(
      "lenet", trainer::build_model("lenet", {.num_classes = 10, .in_channels = 1, .image = 28}));
  const trainer::LossObjective objective;
  MadeFeed feed(steps);
  const auto result = trainer::fit(
      {.model = model, .objective = objective, .train = feed, .devices = threads}, {.epochs = 3});
  for (const trainer::EpochEvent& epoch : result.epochs) {
    const trainer::StepTimes& step = epoch.stall.mean_step;
    std::printf(
        "LeNet, 2 devices of %ld, %ld steps: %.3f ms = forward %.3f + backward %.3f + reduce %.3f "
        "+ peers %.3f + update %.3f (reduce to reach: 0.1)\n",
        static_cast<long>(kBatch), static_cast<long>(steps), 1e3 * step.total(), 1e3 * step.forward,
        1e3 * step.backward, 1e3 * step.reduce, 1e3 * step.peer_wait, 1e3 * step.update);
  }
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::max(2L, std::atol(argv[1])) : 500;
  millrace::time_collectives();
  millrace::train_lenet(steps);
}
