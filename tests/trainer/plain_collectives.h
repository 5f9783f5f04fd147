// The simplest Collectives, to compare others with: every operation is one exchange of all ranks'
// bytes under a mutex, and each rank computes its result itself.
#pragma once

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "trainer/collectives.h"

namespace millrace::testing {

/// values[first] + ... + values[last - 1], in the order that Collectives specifies.
template <typename T>
T plain_tree_sum(std::span<const T> values) {
  if (values.size() == 1) return values.front();
  const std::size_t half = std::bit_floor(values.size() - 1);
  return plain_tree_sum(values.first(half)) + plain_tree_sum(values.subspan(half));
}

class PlainCollectives final : public trainer::Collectives {
 public:
  using Bytes = std::vector<std::byte>;

  /// What the ranks of a group share.
  struct Table {
    explicit Table(int world) : bytes(static_cast<std::size_t>(world)) {}
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Bytes> bytes;
    int came = 0;
    int left = 0;
    bool is_full = false;
    bool is_aborted = false;
    std::string reason;
  };

  PlainCollectives(std::shared_ptr<Table> table, int rank)
      : table_(std::move(table)), rank_(rank) {}

  static std::vector<std::unique_ptr<trainer::Collectives>> make(int world) {
    const auto table = std::make_shared<Table>(world);
    std::vector<std::unique_ptr<trainer::Collectives>> group;
    for (int r = 0; r < world; ++r) group.push_back(std::make_unique<PlainCollectives>(table, r));
    return group;
  }

  int rank() const override { return rank_; }
  int world() const override { return static_cast<int>(table_->bytes.size()); }
  void all_reduce(std::span<float> values) override { sum(values, {0, values.size()}); }
  void all_reduce(std::span<double> values) override { sum(values, {0, values.size()}); }
  void reduce_scatter(std::span<float> values) override {
    sum(values, slice(values.size(), rank_));
  }
  void all_gather(std::span<float> values) override {
    const auto all = all_gather_bytes(std::as_bytes(values));
    for (int r = 0; r < world(); ++r) {
      const auto [begin, end] = slice(values.size(), r);
      if (begin == end || r == rank_) continue;
      // Another rank of this test may write the same value to the same memory.
      const std::lock_guard lock(table_->mutex);
      std::memcpy(values.data() + begin,
                  all[static_cast<std::size_t>(r)].data() + begin * sizeof(float),
                  (end - begin) * sizeof(float));
    }
    barrier();
  }
  void broadcast(std::span<std::byte> data, int root) override {
    const auto all = all_gather_bytes(data);
    std::ranges::copy(all[static_cast<std::size_t>(root)], data.begin());
  }
  std::vector<Bytes> all_gather_bytes(std::span<const std::byte> data) override {
    std::unique_lock lock(table_->mutex);
    wait(lock, [&] { return !table_->is_full; });
    table_->bytes[static_cast<std::size_t>(rank_)].assign(data.begin(), data.end());
    if (++table_->came == world()) table_->is_full = true;
    table_->changed.notify_all();
    wait(lock, [&] { return table_->is_full; });
    std::vector<Bytes> all = table_->bytes;
    if (++table_->left == world()) {
      table_->came = table_->left = 0;
      table_->is_full = false;
    }
    table_->changed.notify_all();
    return all;
  }
  void barrier() override { all_gather_bytes({}); }
  void abort(const std::string& reason) noexcept override {
    const std::lock_guard lock(table_->mutex);
    if (!table_->is_aborted) table_->reason = reason;
    table_->is_aborted = true;
    table_->changed.notify_all();
  }

 private:
  template <typename Condition>
  void wait(std::unique_lock<std::mutex>& lock, const Condition& holds) {
    table_->changed.wait(lock, [&] { return table_->is_aborted || holds(); });
    if (table_->is_aborted) throw Error(ErrorCode::kCancelled, table_->reason);
  }

  template <typename T>
  void sum(std::span<T> values, std::pair<std::size_t, std::size_t> part) {
    const auto all = all_gather_bytes(std::as_bytes(values));
    std::vector<T> terms(all.size());
    for (std::size_t i = part.first; i < part.second; ++i) {
      for (std::size_t r = 0; r < all.size(); ++r)
        std::memcpy(&terms[r], all[r].data() + i * sizeof(T), sizeof(T));
      values[i] = plain_tree_sum(std::span<const T>(terms));
    }
  }

  std::shared_ptr<Table> table_;
  int rank_;
};

}  // namespace millrace::testing
