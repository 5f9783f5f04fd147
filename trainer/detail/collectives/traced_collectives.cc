#include "trainer/detail/collectives/traced_collectives.h"

#include <type_traits>
#include <utility>

namespace millrace::trainer::detail {
namespace {

class TracedCollectives final : public Collectives {
 public:
  TracedCollectives(std::unique_ptr<Collectives> group, const TraceTrack& track)
      : group_(std::move(group)), track_(track) {}

  int rank() const override { return group_->rank(); }
  int world() const override { return group_->world(); }
  ValueRange slice(std::size_t n, int rank) const override { return group_->slice(n, rank); }

  void all_reduce(std::span<float> values) override {
    traced("all_reduce", values.size_bytes(), [&] { group_->all_reduce(values); });
  }
  void all_reduce(std::span<double> values) override {
    traced("all_reduce", values.size_bytes(), [&] { group_->all_reduce(values); });
  }
  void reduce_scatter(std::span<float> values) override {
    traced("reduce_scatter", values.size_bytes(), [&] { group_->reduce_scatter(values); });
  }
  void all_gather(std::span<float> values) override {
    traced("all_gather", values.size_bytes(), [&] { group_->all_gather(values); });
  }
  void all_gather_rounded(std::span<float> values, std::span<const ValueRange> rounded) override {
    traced("all_gather_rounded", values.size_bytes(),
           [&] { group_->all_gather_rounded(values, rounded); });
  }
  void broadcast(std::span<std::byte> data, int root) override {
    traced("broadcast", data.size(), [&] { group_->broadcast(data, root); });
  }
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> data) override {
    return traced("all_gather_bytes", data.size(), [&] { return group_->all_gather_bytes(data); });
  }
  void barrier() override {
    traced("barrier", 0, [&] { group_->barrier(); });
  }
  std::chrono::nanoseconds peer_wait() const override { return group_->peer_wait(); }
  void abort(const std::string& reason) noexcept override { group_->abort(reason); }

 private:
  template <typename Call>
  std::invoke_result_t<const Call&> traced(const char* name, std::size_t bytes, const Call& call) {
    TraceSpan span(track_, name);
    span.arg("bytes", bytes);
    return call();
  }

  std::unique_ptr<Collectives> group_;
  const TraceTrack track_;
};

}  // namespace

std::unique_ptr<Collectives> trace_collectives(std::unique_ptr<Collectives> group,
                                               const TraceTrack& track) {
  return std::make_unique<TracedCollectives>(std::move(group), track);
}

}  // namespace millrace::trainer::detail
