// Topology: devices that are not there, for which programs can be compiled all the same.
//
//   const pjrt::Topology topology(plugin, {.name = "v5e:2x2"});
//   const pjrt::ProgramCost cost = topology.compile(stablehlo, {.replicas = 4});
//
// A plugin for TPUs asks the machine's metadata server first, for minutes where there is none: set
// TPU_SKIP_MDS_QUERY=1 before it is loaded. Errors as those of client.h.
//
// Threads: from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/pjrt/client.h"
#include "device/pjrt/plugin.h"

namespace millrace::device::pjrt {

struct TopologyOptions {
  std::string name;  ///< as the plugin spells it: "v5e:2x4" of libtpu, "1x1x1" of CUDA's
  /// The plugin's own: CUDA's has "target_config", an xla.GpuTargetConfigProto as text.
  std::vector<std::pair<std::string, std::string>> settings = {};
};

/// What a compiled program takes on each device. Nullopt: the compiler does not say.
struct ProgramCost {
  std::optional<double> flops = {};           ///< of one run
  std::optional<double> bytes_accessed = {};  ///< of memory, read and written in one run
  std::int64_t argument_bytes = 0;
  std::int64_t result_bytes = 0;
  std::int64_t aliased_bytes = 0;  ///< of the results, those that lie where arguments were
  std::int64_t temporary_bytes = 0;

  /// The most that a run holds at once.
  std::int64_t memory_bytes() const {
    return argument_bytes + result_bytes - aliased_bytes + temporary_bytes;
  }
};

class Topology {
 public:
  /// Throws: Unsupported for a plugin without topologies; what it says of the name.
  Topology(const Plugin& plugin, const TopologyOptions& options);
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  const std::vector<DeviceInfo>& devices() const;
  /// May take minutes. Throws: as Client::compile().
  ProgramCost compile(std::string_view stablehlo, const CompileOptions& options = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::device::pjrt
