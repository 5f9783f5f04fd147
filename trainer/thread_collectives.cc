#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "io/base/check.h"
#include "io/base/cores.h"
#include "io/base/error.h"
#include "trainer/collectives.h"
#include "trainer/detail/flat_math.h"

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

using Clock = std::chrono::steady_clock;

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Where all ranks of a group meet. A rank that comes early spins for a short while, since its peers
// mostly come within microseconds and waking a thread takes tens of them; then it sleeps.
class MeetingPoint {
 public:
  MeetingPoint(int world, const ThreadCollectivesOptions& options)
      : world_(world),
        options_(options),
        spins_(world <= usable_cores()),
        here_(static_cast<std::size_t>(world)) {}

  int world() const { return world_; }

  // Returns when every rank has come, with the time that the last one came after this one. Throws:
  // Cancelled, after abort().
  std::chrono::nanoseconds meet(int rank) {
    throw_if_aborted();
    const auto came = Clock::now();
    const std::uint64_t meeting = meeting_.load(std::memory_order_relaxed);
    here_[static_cast<std::size_t>(rank)].store(meeting + 1, std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == world_) {
      open(meeting, came);
      return {};
    }
    if (!(spins_ && spin(meeting, came))) sleep(meeting);
    // The next meeting cannot write it before this rank has come there.
    return std::max(std::chrono::nanoseconds(0), last_came_ - came);
  }

  void abort(const std::string& reason) noexcept {
    const std::lock_guard lock(mutex_);
    if (!aborted_) {
      try {
        reason_ = reason;
      } catch (...) {  // no memory for the reason: the abort itself must still happen
      }
      aborted_ = true;
    }
    changed_.notify_all();
  }

 private:
  static constexpr std::chrono::microseconds kSpin{50};
  static constexpr int kLooksAtOnce = 64;  // between two looks at the clock

  // A sleeper counts itself before it looks at meeting_, and the last rank writes meeting_ before
  // it looks at the count: one of the two sees the other.
  void open(std::uint64_t meeting, Clock::time_point came) {
    last_came_ = came;
    arrived_.store(0, std::memory_order_relaxed);
    meeting_.store(meeting + 1);
    if (sleepers_.load() == 0) return;
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

  bool is_over(std::uint64_t meeting) const {
    return meeting_.load(std::memory_order_acquire) != meeting;
  }

  bool spin(std::uint64_t meeting, Clock::time_point came) const {
    while (Clock::now() - came < kSpin) {
      for (int i = 0; i < kLooksAtOnce; ++i) {
        if (is_over(meeting)) return true;
        pause_core();
      }
      if (aborted_) return false;
    }
    return false;
  }

  void sleep(std::uint64_t meeting) {
    std::unique_lock lock(mutex_);
    ++sleepers_;
    const auto over = [&] { return meeting_.load() != meeting || aborted_; };
    if (options_.timeout.count() == 0) {
      changed_.wait(lock, over);
    } else if (!changed_.wait_for(lock, options_.timeout, over)) {
      reason_ =
          "waited " + std::to_string(options_.timeout.count()) + " ms for rank" + missing(meeting);
      aborted_ = true;
      changed_.notify_all();
    }
    --sleepers_;
    lock.unlock();
    if (!is_over(meeting)) throw_if_aborted();
  }

  std::string missing(std::uint64_t meeting) const {
    std::string ranks;
    for (std::size_t r = 0; r < here_.size(); ++r) {
      if (here_[r].load(std::memory_order_relaxed) > meeting) continue;
      ranks += ' ';
      ranks += std::to_string(r);
    }
    return ranks;
  }

  void throw_if_aborted() {
    if (!aborted_) return;
    const std::lock_guard lock(mutex_);
    throw Error(ErrorCode::kCancelled, "the replicas' group ended: " + reason_);
  }

  const int world_;
  const ThreadCollectivesOptions options_;
  const bool spins_;
  std::vector<std::atomic<std::uint64_t>> here_;  ///< the meeting that each rank came to last, + 1
  Clock::time_point last_came_;                   ///< ordered by meeting_
  std::atomic<int> arrived_{0};
  std::atomic<std::uint64_t> meeting_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string reason_;  ///< guarded by mutex_
};

// What one rank shows the others in a round. Rounds use two boards in turns: a rank can write its
// third round's only after all have come to the second's meeting, and so have done with the first.
struct Offer {
  static constexpr std::size_t kInline = 512;  // bytes

  void* data = nullptr;
  std::size_t size = 0;
  alignas(64) std::array<std::byte, kInline> small;
};

struct SharedRound {
  SharedRound(int world, const ThreadCollectivesOptions& options)
      : point(world, options), offers(2 * static_cast<std::size_t>(world)) {}

  MeetingPoint point;
  std::vector<Offer> offers;
};

class ThreadCollectives final : public Collectives {
 public:
  ThreadCollectives(std::shared_ptr<SharedRound> shared, int rank)
      : shared_(std::move(shared)), rank_(rank) {}

  int rank() const override { return rank_; }
  int world() const override { return shared_->point.world(); }

  void all_reduce(std::span<float> values) override { all_reduce_any(values); }
  void all_reduce(std::span<double> values) override { all_reduce_any(values); }

  void reduce_scatter(std::span<float> values) override {
    if (world() == 1) return;
    offer_equal(values);
    sum_slice(values);
    meet();
  }

  void broadcast(std::span<std::byte> data, int root) override {
    offer_equal(data);
    if (rank_ != root && !data.empty()) {
      std::memcpy(data.data(), offer_of(root).data, data.size());
    }
    meet();
  }

  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> data) override {
    offer(data.size(), const_cast<std::byte*>(data.data()));  // read only by the others
    meet();
    std::vector<std::vector<std::byte>> all;
    for (int r = 0; r < world(); ++r) {
      const auto* from = static_cast<const std::byte*>(offer_of(r).data);
      all.emplace_back(from, from + offer_of(r).size);
    }
    meet();
    return all;
  }

  void barrier() override { meet(); }
  void abort(const std::string& reason) noexcept override { shared_->point.abort(reason); }

  std::chrono::nanoseconds peer_wait() const override {
    return std::chrono::nanoseconds(peer_wait_.load(std::memory_order_relaxed));
  }

 private:
  void meet() {
    const std::chrono::nanoseconds waited = shared_->point.meet(rank_);
    peer_wait_.fetch_add(waited.count(), std::memory_order_relaxed);
  }

  Offer& offer_of(int rank) {
    const std::size_t board = round_ % 2 * static_cast<std::size_t>(world());
    return shared_->offers[board + static_cast<std::size_t>(rank)];
  }

  // Begins a round.
  Offer& offer(std::size_t size, void* data) {
    ++round_;
    Offer& own = offer_of(rank_);
    own.data = data;
    own.size = size;
    return own;
  }

  // Throws: InvalidArgument on every rank for sizes that differ.
  void meet_equal(std::size_t size) {
    meet();
    bool equal = true;
    for (int r = 0; r < world(); ++r) equal = equal && offer_of(r).size == size;
    if (equal) return;
    throw Error(ErrorCode::kInvalidArgument, "ranks called one collective with other sizes");
  }

  template <typename T>
  void offer_equal(std::span<T> values) {
    offer(values.size_bytes(), values.data());
    meet_equal(values.size_bytes());
  }

  // into[i] = the sum over the ranks, in their order, of what they offer at `at` + i.
  template <typename T>
  void sum_offers(std::size_t at, std::span<T> into) {
    std::vector<const T*> sources;
    for (int r = 0; r < world(); ++r) {
      sources.push_back(static_cast<const T*>(offer_of(r).data) + at);
    }
    flat::sum(into, sources);
  }

  template <typename T>
  void sum_slice(std::span<T> values) {
    const auto [begin, end] = slice(values.size(), rank_, world());
    sum_offers(begin, values.subspan(begin, end - begin));
  }

  template <typename T>
  void all_reduce_any(std::span<T> values) {
    if (world() == 1) return;
    if (values.size_bytes() <= Offer::kInline) return all_reduce_small(values);
    offer_equal(values);
    sum_slice(values);
    meet();
    for (int r = 0; r < world(); ++r) {
      const auto [begin, end] = slice(values.size(), r, world());
      const T* from = static_cast<const T*>(offer_of(r).data);
      if (r != rank_) std::copy(from + begin, from + end, values.data() + begin);
    }
    meet();
  }

  // Each rank leaves a copy on its board and adds up all of them: one meeting instead of three.
  template <typename T>
  void all_reduce_small(std::span<T> values) {
    Offer& own = offer(values.size_bytes(), nullptr);
    own.data = own.small.data();
    if (!values.empty()) std::memcpy(own.small.data(), values.data(), values.size_bytes());
    meet_equal(values.size_bytes());
    sum_offers(0, values);
  }

  std::shared_ptr<SharedRound> shared_;
  int rank_;
  std::uint64_t round_ = 0;
  std::atomic<std::int64_t> peer_wait_{0};
};

}  // namespace

std::vector<std::unique_ptr<Collectives>> make_thread_collectives(
    int world, const ThreadCollectivesOptions& options) {
  MILLRACE_CHECK(world > 0, "a group needs a rank");
  auto shared = std::make_shared<SharedRound>(world, options);
  std::vector<std::unique_ptr<Collectives>> group;
  for (int r = 0; r < world; ++r) group.push_back(std::make_unique<ThreadCollectives>(shared, r));
  return group;
}

}  // namespace millrace::trainer
