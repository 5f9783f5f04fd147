// A backend whose steps are programs, which a PJRT plugin compiles for its devices: TPU, GPU, or
// XLA's own for the CPU.
//
//   const pjrt::Plugin plugin("site-packages/libtpu/libtpu.so");
//   const auto client = std::make_shared<const pjrt::Client>(plugin);
//   const std::unique_ptr<Backend> backend = make_pjrt_backend(client);
//   fit({..., .devices = threads, .backend = backend.get()}, options);
//
// Replica d of the process runs on client->devices()[d]. The replicas that share weights are
// replicas of one program, which sums over them; processes that the plugin connects are part of it
// (PjrtBackendOptions::assignment), others sum by their Collectives, between a program of gradients
// and one of the update. Each device has weights, states and EMA of its own;
// the host's copy is brought up to date when it is read.
//
// Refused, as Unsupported and by name, when a step is made (an evaluation or prediction: at its
// first batch): a model without a graph, and a layer, loss, rule or objective without StableHLO. A
// program's failure while it runs has consumed the weights: is_intact() is false, and the run ends
// with its last checkpoint.
//
// Threads: as Backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/pjrt/client.h"
#include "io/base/log.h"
#include "trainer/backend.h"
#include "trainer/hlo/program.h"

namespace millrace::trainer {

struct PjrtBackendOptions {
  /// XLA's own, of every compilation: {"xla_backend_optimization_level", 0}.
  std::vector<std::pair<std::string, std::int64_t>> flags = {};
  /// The devices of all replicas of all processes, by DeviceInfo::id and in the order of the
  /// replicas, where the plugin connects them: a step is then one program of all. Empty: processes
  /// sum on the host.
  std::vector<std::int64_t> assignment = {};
  /// Where compiled programs are kept for the next run (trainer/pjrt/program_store.h); empty:
  /// nowhere.
  std::string store = {};
  /// Of images that come as bytes, a quarter of float32 on the way; empty: none do.
  hlo::Normalisation bytes = {};
  Log log = {};  ///< says what is compiled: that takes minutes on some devices
};

std::unique_ptr<Backend> make_pjrt_backend(std::shared_ptr<const device::pjrt::Client> client,
                                           const PjrtBackendOptions& options = {});

}  // namespace millrace::trainer
