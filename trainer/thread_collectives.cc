#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "trainer/collectives.h"

namespace millrace::trainer {

std::pair<std::size_t, std::size_t> Collectives::slice(std::size_t n, int rank, int world) {
  constexpr std::size_t kGrain = 16;
  const std::size_t grains = (n + kGrain - 1) / kGrain;
  const auto r = static_cast<std::size_t>(rank);
  const auto w = static_cast<std::size_t>(world);
  const auto bound = [&](std::size_t i) { return std::min(n, grains * i / w * kGrain); };
  return {bound(r), bound(r + 1)};
}

namespace {

// What the ranks of a group share. A round is: everybody writes its offer, meets the others, works
// on all offers, and meets them again, after which offers may go.
class SharedRound {
 public:
  struct Offer {
    void* data = nullptr;
    std::size_t size = 0;
  };

  SharedRound(int world, const ThreadCollectivesOptions& options)
      : world_(world),
        options_(options),
        offers_(static_cast<std::size_t>(world)),
        here_(static_cast<std::size_t>(world), 0) {}

  int world() const { return world_; }
  Offer& offer(int rank) { return offers_[static_cast<std::size_t>(rank)]; }

  // Returns when every rank has come. Throws: Cancelled, after abort().
  void meet(int rank) {
    std::unique_lock lock(mutex_);
    throw_if_aborted();
    here_[static_cast<std::size_t>(rank)] = 1;
    if (++arrived_ == world_) {
      begin_next_meeting();
      return;
    }
    wait(lock, meeting_);
  }

  void abort(const std::string& reason) noexcept {
    const std::lock_guard lock(mutex_);
    if (!aborted_) {
      aborted_ = true;
      try {
        reason_ = reason;
      } catch (...) {  // no memory for the reason: the abort itself must still happen
      }
    }
    changed_.notify_all();
  }

 private:
  void begin_next_meeting() {
    arrived_ = 0;
    ++meeting_;
    std::fill(here_.begin(), here_.end(), std::uint8_t{0});
    changed_.notify_all();
  }

  void wait(std::unique_lock<std::mutex>& lock, std::uint64_t meeting) {
    const auto over = [&] { return meeting_ != meeting || aborted_; };
    if (options_.timeout.count() == 0) {
      changed_.wait(lock, over);
    } else if (!changed_.wait_for(lock, options_.timeout, over)) {
      aborted_ = true;
      reason_ = "waited " + std::to_string(options_.timeout.count()) + " ms for rank" + missing();
      changed_.notify_all();
    }
    if (meeting_ == meeting) throw_if_aborted();
  }

  std::string missing() const {
    std::string ranks;
    for (std::size_t r = 0; r < here_.size(); ++r) {
      if (here_[r] == 0) ranks += " " + std::to_string(r);
    }
    return ranks;
  }

  void throw_if_aborted() const {
    if (aborted_) throw Error(ErrorCode::kCancelled, "the replicas' group ended: " + reason_);
  }

  const int world_;
  const ThreadCollectivesOptions options_;
  std::vector<Offer> offers_;  // written before meeting, read after: meet() orders the accesses
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint8_t> here_;
  int arrived_ = 0;
  std::uint64_t meeting_ = 0;
  bool aborted_ = false;
  std::string reason_;
};

class ThreadCollectives final : public Collectives {
 public:
  ThreadCollectives(std::shared_ptr<SharedRound> round, int rank)
      : round_(std::move(round)), rank_(rank) {}

  int rank() const override { return rank_; }
  int world() const override { return round_->world(); }

  void all_reduce(std::span<float> values) override { all_reduce_any(values); }
  void all_reduce(std::span<double> values) override { all_reduce_any(values); }

  void reduce_scatter(std::span<float> values) override {
    if (world() == 1) return;
    begin_round(values);
    sum_slice(values);
    round_->meet(rank_);
  }

  void broadcast(std::span<std::byte> data, int root) override {
    begin_round(data);
    if (rank_ != root && !data.empty()) {
      std::memcpy(data.data(), round_->offer(root).data, data.size());
    }
    round_->meet(rank_);
  }

  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> data) override {
    offer(data.size(), const_cast<std::byte*>(data.data()));  // read only by the others
    round_->meet(rank_);
    std::vector<std::vector<std::byte>> all;
    for (int r = 0; r < world(); ++r) {
      const auto* from = static_cast<const std::byte*>(round_->offer(r).data);
      all.emplace_back(from, from + round_->offer(r).size);
    }
    round_->meet(rank_);
    return all;
  }

  void barrier() override { round_->meet(rank_); }
  void abort(const std::string& reason) noexcept override { round_->abort(reason); }

 private:
  void offer(std::size_t size, void* data) { round_->offer(rank_) = {data, size}; }

  // Offers `values`, and meets the others. Throws: InvalidArgument on every rank for sizes that
  // differ.
  template <typename T>
  void begin_round(std::span<T> values) {
    offer(values.size_bytes(), values.data());
    round_->meet(rank_);
    bool equal = true;
    for (int r = 0; r < world(); ++r) equal = equal && round_->offer(r).size == values.size_bytes();
    if (!equal) {
      round_->meet(rank_);
      throw Error(ErrorCode::kInvalidArgument, "ranks called one collective with other sizes");
    }
  }

  template <typename T>
  void sum_slice(std::span<T> values) {
    const auto [begin, end] = slice(values.size(), rank_, world());
    constexpr std::size_t kBlock = 2048;  // what is summed stays in the first-level cache
    T sum[kBlock];
    for (std::size_t at = begin; at < end; at += kBlock) {
      const std::size_t n = std::min(kBlock, end - at);
      for (int r = 0; r < world(); ++r) {
        const T* from = static_cast<const T*>(round_->offer(r).data) + at;
        if (r == 0) {
          std::copy_n(from, n, sum);
        } else {
          for (std::size_t i = 0; i < n; ++i) sum[i] += from[i];
        }
      }
      std::copy_n(sum, n, values.data() + at);
    }
  }

  template <typename T>
  void all_reduce_any(std::span<T> values) {
    if (world() == 1) return;
    begin_round(values);
    sum_slice(values);
    round_->meet(rank_);
    for (int r = 0; r < world(); ++r) {
      const auto [begin, end] = slice(values.size(), r, world());
      const T* from = static_cast<const T*>(round_->offer(r).data);
      if (r != rank_) std::copy(from + begin, from + end, values.data() + begin);
    }
    round_->meet(rank_);
  }

  std::shared_ptr<SharedRound> round_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Collectives>> make_thread_collectives(
    int world, const ThreadCollectivesOptions& options) {
  MILLRACE_CHECK(world > 0, "a group needs a rank");
  auto round = std::make_shared<SharedRound>(world, options);
  std::vector<std::unique_ptr<Collectives>> group;
  for (int r = 0; r < world; ++r) group.push_back(std::make_unique<ThreadCollectives>(round, r));
  return group;
}

}  // namespace millrace::trainer
