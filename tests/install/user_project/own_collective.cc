// Collectives and a Cluster of one's own, given to fit(): two processes, here two threads of one
// program, train one model and tell each other all they have to tell through a table in memory.
// Another network takes the table's place: all it must do is exchange(), and abort().
#include <algorithm>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "millrace/device/device.h"
#include "millrace/io/base/error.h"
#include "millrace/trainer/cluster.h"
#include "millrace/trainer/collectives.h"
#include "millrace/trainer/feed.h"
#include "millrace/trainer/fit.h"
#include "millrace/trainer/model.h"
#include "millrace/trainer/nn/graph.h"
#include "millrace/trainer/objective.h"
#include "millrace/trainer/replicas.h"

namespace mr = millrace;
using Bytes = std::vector<std::byte>;

/// Where everybody leaves bytes, and takes those of all when they are there.
class Table {
 public:
  explicit Table(int places) : bytes_(static_cast<std::size_t>(places)) {}

  std::vector<Bytes> exchange(int place, std::span<const std::byte> own) {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return !is_full_; });
    bytes_[static_cast<std::size_t>(place)].assign(own.begin(), own.end());
    is_full_ = ++came_ == bytes_.size();
    changed_.notify_all();
    wait(lock, [&] { return is_full_; });
    std::vector<Bytes> all = bytes_;
    if (--came_ == 0) is_full_ = false;
    changed_.notify_all();
    return all;
  }

  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = reason;
    changed_.notify_all();
  }

 private:
  template <typename Condition>
  void wait(std::unique_lock<std::mutex>& lock, const Condition& holds) {
    changed_.wait(lock, [&] { return !reason_.empty() || holds(); });
    if (!reason_.empty()) throw mr::Error(mr::ErrorCode::kCancelled, reason_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Bytes> bytes_;
  std::size_t came_ = 0;
  bool is_full_ = false;
  std::string reason_;
};

/// One binary tree over the ranks, as trainer/collectives.h asks for.
template <typename T>
T tree_sum(std::span<const T> terms) {
  if (terms.size() == 1) return terms.front();
  const std::size_t half = std::bit_floor(terms.size() - 1);
  return tree_sum(terms.first(half)) + tree_sum(terms.subspan(half));
}

class OwnCollectives final : public mr::trainer::Collectives {
 public:
  OwnCollectives(std::shared_ptr<Table> table, int rank, int world)
      : table_(std::move(table)), rank_(rank), world_(world) {}

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  void all_reduce(std::span<float> values) override { sum(values, {0, values.size()}); }
  void all_reduce(std::span<double> values) override { sum(values, {0, values.size()}); }
  void reduce_scatter(std::span<float> values) override {
    sum(values, slice(values.size(), rank_));
  }
  void all_gather(std::span<float> values) override {
    const auto all = table_->exchange(rank_, std::as_bytes(values));
    for (int from = 0; from < world_; ++from) {
      const auto [begin, end] = slice(values.size(), from);
      const auto bytes = std::as_bytes(values.subspan(begin, end - begin));
      if (from != rank_ && !bytes.empty())
        std::memcpy(values.data() + begin,
                    all[static_cast<std::size_t>(from)].data() + begin * sizeof(float),
                    bytes.size());
    }
  }
  void broadcast(std::span<std::byte> data, int root) override {
    const auto all = table_->exchange(rank_, data);
    std::ranges::copy(all[static_cast<std::size_t>(root)], data.begin());
  }
  std::vector<Bytes> all_gather_bytes(std::span<const std::byte> data) override {
    return table_->exchange(rank_, data);
  }
  void barrier() override { table_->exchange(rank_, {}); }
  void abort(const std::string& reason) noexcept override { table_->abort(reason); }

 private:
  template <typename T>
  void sum(std::span<T> values, std::pair<std::size_t, std::size_t> part) {
    const auto all = table_->exchange(rank_, std::as_bytes(values));
    std::vector<T> terms(all.size());
    for (std::size_t i = part.first; i < part.second; ++i) {
      for (std::size_t r = 0; r < all.size(); ++r)
        std::memcpy(&terms[r], all[r].data() + i * sizeof(T), sizeof(T));
      values[i] = tree_sum(std::span<const T>(terms));
    }
  }

  std::shared_ptr<Table> table_;
  int rank_;
  int world_;
};

/// What the processes have in common: a table per group, found by the group's number.
class Network {
 public:
  explicit Network(int processes) : processes_(processes) {}

  int processes() const { return processes_; }
  std::shared_ptr<Table> table(int group) {
    const std::lock_guard lock(mutex_);
    auto& table = tables_[group];
    if (table == nullptr) table = std::make_shared<Table>(processes_);
    if (!reason_.empty()) table->abort(reason_);
    return table;
  }
  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    reason_ = reason;
    for (const auto& [group, table] : tables_) table->abort(reason);
  }

 private:
  int processes_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<Table>> tables_;
  std::string reason_;
};

/// Processes of one device each.
class OwnCluster final : public mr::trainer::Cluster {
 public:
  OwnCluster(Network& network, int process)
      : network_(network), process_(process), own_(network.table(0)) {}

  mr::Topology topology() const override {
    return {.process = process_, .processes = network_.processes()};
  }
  std::vector<std::unique_ptr<mr::trainer::Collectives>> make_group() override {
    std::vector<std::unique_ptr<mr::trainer::Collectives>> group;
    group.push_back(std::make_unique<OwnCollectives>(network_.table(++groups_), process_,
                                                     network_.processes()));
    return group;
  }
  void broadcast(std::span<std::byte> data, int root) override {
    const auto all = own_->exchange(process_, data);
    std::ranges::copy(all[static_cast<std::size_t>(root)], data.begin());
  }
  std::vector<Bytes> all_gather(std::span<const std::byte> data) override {
    return own_->exchange(process_, data);
  }
  void abort(const std::string& reason) noexcept override { network_.abort(reason); }

 private:
  Network& network_;
  int process_;
  std::shared_ptr<Table> own_;
  int groups_ = 0;
};

constexpr int kSteps = 40;
constexpr int kBatch = 8;
constexpr int kPixels = 16;

/// A process's share of the samples: those at its own batches of each round. The class is whether
/// the pixels rise or fall.
class Share final : public mr::trainer::Feed {
 public:
  Share(int first_rank, int world) : first_rank_(first_rank), world_(world) {}

  std::unique_ptr<mr::trainer::EpochFeed> open(std::uint32_t /*epoch*/,
                                               const mr::pipeline::Position* /*from*/) override {
    return std::make_unique<Epoch>(first_rank_, world_);
  }
  std::int64_t steps_per_epoch() const override { return kSteps; }

 private:
  class Epoch final : public mr::trainer::EpochFeed {
   public:
    Epoch(int first_rank, int world)
        : first_rank_(first_rank), world_(world), steps_(static_cast<std::size_t>(world)) {}
    bool next(int replica, mr::pipeline::Batch& batch) override;
    void stop() override {}

   private:
    int first_rank_;
    int world_;
    std::vector<int> steps_;  // one per replica, each its thread's own
  };

  int first_rank_;
  int world_;
};

bool Share::Epoch::next(int replica, mr::pipeline::Batch& batch) {
  int& step = steps_[static_cast<std::size_t>(replica)];
  if (step == kSteps) return false;
  struct Values {
    std::vector<float> pixels;
    std::vector<std::int64_t> labels;
  };
  const auto values = std::make_shared<Values>();
  const int first = (step++ * world_ + first_rank_ + replica) * kBatch;
  for (int sample = first; sample < first + kBatch; ++sample) {
    const int label = sample * 7 % 3 % 2;
    for (int i = 0; i < kPixels; ++i) {
      const int at = label == 0 ? i : kPixels - 1 - i;
      const int noise = (sample * 31 + i * 17) % 23;
      values->pixels.push_back(static_cast<float>(2 * at + noise) / kPixels - 1.5F);
    }
    values->labels.push_back(label);
  }
  batch = {};
  batch.size = batch.num_valid = kBatch;
  batch.valid.assign(kBatch, 1);
  batch.keys.assign(kBatch, "");
  batch.fields = {{"image",
                   {mr::decode::DType::kFloat32, {kBatch, kPixels}},
                   std::as_writable_bytes(std::span(values->pixels))},
                  {"label",
                   {mr::decode::DType::kInt64, {kBatch}},
                   std::as_writable_bytes(std::span(values->labels))}};
  batch.owner = values;
  return true;
}

mr::trainer::nn::Graph small_net() {
  mr::trainer::nn::GraphBuilder builder;
  const auto pixels = builder.flatten("flatten", builder.input("image", {1, 4, 4}));
  builder.output("logits", builder.linear("fc", pixels, {.features = 2}));
  return builder.build();
}

mr::trainer::FitResult train(mr::trainer::Feed& feed, int devices, mr::trainer::Cluster* cluster) {
  const auto set = mr::device::DeviceSet::cpu(static_cast<std::size_t>(devices));
  mr::trainer::DeviceThreads threads(set);
  const mr::trainer::GraphModel model("small_net", small_net());
  const mr::trainer::LossObjective objective;
  return mr::trainer::fit({.model = model,
                           .objective = objective,
                           .train = feed,
                           .devices = threads,
                           .cluster = cluster},
                          {.epochs = 3,
                           .precision = mr::trainer::nn::Precision::kFloat32,
                           .optimizer = {.rule = mr::trainer::Sgd{.lr = 0.05, .momentum = 0}}});
}

double loss_of(const mr::trainer::EpochEvent& epoch) { return epoch.train.front().second; }

int main() {
  constexpr int kProcesses = 2;
  Network network(kProcesses);
  std::vector<mr::trainer::FitResult> results(kProcesses);
  std::vector<std::jthread> threads;
  for (int process = 0; process < kProcesses; ++process) {
    threads.emplace_back([&, process] {
      OwnCluster cluster(network, process);
      Share share(process, kProcesses);
      results[static_cast<std::size_t>(process)] = train(share, 1, &cluster);
    });
  }
  threads.clear();

  Share all(0, kProcesses);
  const auto alone = train(all, kProcesses, nullptr);
  const double first = loss_of(alone.epochs.front());
  const double last = loss_of(alone.epochs.back());
  std::printf("loss %.4f in the first epoch, %.4f in the last\n", first, last);
  for (const auto& result : results) {
    std::printf("in two processes %.4f\n", loss_of(result.epochs.back()));
    if (std::abs(loss_of(result.epochs.back()) - last) > 1e-5 * last) return 1;
    if (result.epochs.back().train_samples != kSteps * kProcesses * kBatch) return 1;
  }
  return last < first / 2 ? 0 : 1;
}
