#include "trainer/cluster.h"

#include <exception>
#include <utility>

#include "io/base/error.h"
#include "trainer/detail/collectives/group_collectives.h"
#include "trainer/detail/collectives/process_messages.h"

namespace millrace::trainer {
namespace {

class LocalCluster final : public Cluster {
 public:
  explicit LocalCluster(int devices) : topology_{.devices = devices} {}

  Topology topology() const override { return topology_; }
  std::vector<std::unique_ptr<Collectives>> make_group() override {
    return make_thread_collectives(topology_.devices);
  }
  void broadcast(std::span<std::byte> /*data*/, int /*root*/) override {}
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> data) override {
    return {{data.begin(), data.end()}};
  }
  void abort(const std::string& /*reason*/) noexcept override {}

 private:
  Topology topology_;
};

class TransportCluster final : public Cluster {
 public:
  TransportCluster(const Topology& topology, Transport& transport, const ClusterOptions& options)
      : topology_(topology), transport_(transport), options_(options) {
    Topology processes = topology;
    processes.devices = 1;
    processes_ = std::move(make(processes, {}).front());
  }

  Topology topology() const override { return topology_; }
  std::vector<std::unique_ptr<Collectives>> make_group() override {
    return make(topology_, options_);
  }
  void broadcast(std::span<std::byte> data, int root) override {
    processes_->broadcast(data, root);
  }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> data) override {
    return processes_->all_gather_bytes(data);
  }
  void abort(const std::string& reason) noexcept override { processes_->abort(reason); }

 private:
  std::vector<std::unique_ptr<Collectives>> make(const Topology& topology,
                                                 const ClusterOptions& options) {
    auto group = detail::make_group_collectives({.topology = topology,
                                                 .transport = &transport_,
                                                 .first_tag = next_tag_,
                                                 .cluster = options});
    next_tag_ += static_cast<std::uint32_t>(topology.devices);
    return group;
  }

  Topology topology_;
  Transport& transport_;
  ClusterOptions options_;
  std::uint32_t next_tag_ = 0;
  std::unique_ptr<Collectives> processes_;  ///< one rank per process
};

}  // namespace

std::string decide(Cluster& cluster, const std::function<std::string()>& decision) {
  detail::Told told = detail::tell_decision(cluster, decision);
  if (!told.failure) return std::move(told.text);
  cluster.fail_alike();
  std::rethrow_exception(told.failure);
}

void all_do(Cluster& cluster, const std::function<void()>& work) {
  std::exception_ptr own;
  try {
    work();
  } catch (...) {
    own = std::current_exception();
  }
  detail::throw_any(cluster, own);
}

std::unique_ptr<Cluster> make_local_cluster(int devices) {
  return std::make_unique<LocalCluster>(devices);
}

std::unique_ptr<TransportSums> Transport::make_sums() {
  throw Error(ErrorCode::kUnsupported, "this transport has no sums of its own");
}

std::unique_ptr<Cluster> make_cluster(const Topology& topology, Transport& transport,
                                      const ClusterOptions& options) {
  require(topology.processes > 0 && topology.process >= 0 && topology.process < topology.processes,
          "a process's number must be below the number of processes");
  require(options.sums == SumsBy::kTree || !options.bf16_gradients,
          "a transport's own sums are of float32 gradients");
  return std::make_unique<TransportCluster>(topology, transport, options);
}

}  // namespace millrace::trainer
