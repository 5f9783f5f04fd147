#include "trainer/pjrt/backend.h"

#include <map>
#include <mutex>
#include <utility>

#include "io/base/check.h"
#include "trainer/pjrt/flat_buffer.h"
#include "trainer/pjrt/replica.h"

namespace millrace::trainer {
namespace {

class PjrtBackend final : public Backend {
 public:
  PjrtBackend(std::shared_ptr<const device::pjrt::Client> client, PjrtBackendOptions options)
      : client_(std::move(client)), options_(std::move(options)) {}

  const std::string& name() const override { return client_->platform(); }

  DeviceBuffer allocate(std::size_t floats) override {
    if (floats == 0) return {};
    auto buffer = std::make_shared<FlatBuffer>(floats);
    const DeviceSpan span(buffer->handle(), 0, floats);
    return {.span = span, .owner = std::move(buffer)};
  }
  void write(std::span<const float> from, DeviceSpan to) override {
    MILLRACE_CHECK(from.size() == to.size(), "a buffer is written by as many values");
    if (!to.empty()) FlatBuffer::of(to).write(to.offset(), from);
  }
  void read(DeviceSpan from, std::span<float> to) override {
    MILLRACE_CHECK(from.size() == to.size(), "a buffer is read into as many values");
    if (!from.empty()) FlatBuffer::of(from).read(from.offset(), to);
  }
  void copy(DeviceSpan from, DeviceSpan to) override { write(values(from), to); }
  void swap(DeviceSpan a, DeviceSpan b) override {
    MILLRACE_CHECK(a.size() == b.size(), "parts of one size are swapped");
    if (a.empty()) return;
    if (FlatBuffer::of(a).is_whole(a) && FlatBuffer::of(b).is_whole(b))
      return FlatBuffer::swap(FlatBuffer::of(a), FlatBuffer::of(b));
    const std::vector<float> kept = values(a);
    copy(b, a);
    write(kept, b);
  }

  device::Landing landing(const Objective& objective) const override {
    return {.only = objective.fields()};
  }
  std::unique_ptr<BackendReplica> make_replica(const ReplicaSetup& setup) override {
    return std::make_unique<PjrtReplica>(team_of(setup), setup);
  }

 private:
  std::vector<float> values(DeviceSpan span) {
    std::vector<float> values(span.size());
    read(span, values);
    return values;
  }

  /// The one whose replicas share these weights and the model: evaluations may have one of their
  /// own.
  std::shared_ptr<ReplicaTeam> team_of(const ReplicaSetup& setup) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(teams_, [](const auto& one) { return one.second.expired(); });
    auto& known = teams_[{setup.weights.buffer(), &setup.model}];
    auto team = known.lock();
    if (team != nullptr) return team;
    team = std::make_shared<ReplicaTeam>(ProgramsSetup{.client = client_,
                                                       .model = setup.model,
                                                       .objective = setup.objective,
                                                       .precision = setup.precision,
                                                       .flags = options_.flags,
                                                       .assignment = options_.assignment,
                                                       .store = options_.store,
                                                       .bytes = options_.bytes,
                                                       .log = options_.log});
    known = team;
    return team;
  }

  std::shared_ptr<const device::pjrt::Client> client_;
  PjrtBackendOptions options_;
  std::mutex mutex_;
  std::map<std::pair<BufferHandle, const Model*>, std::weak_ptr<ReplicaTeam>> teams_;
};

}  // namespace

std::unique_ptr<Backend> make_pjrt_backend(std::shared_ptr<const device::pjrt::Client> client,
                                           const PjrtBackendOptions& options) {
  return std::make_unique<PjrtBackend>(std::move(client), options);
}

}  // namespace millrace::trainer
