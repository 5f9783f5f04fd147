// RunDevices: what --devices names: cores of this machine, or the devices of a PJRT plugin; and the
// backend that computes on them.
//
//   const DeviceChoice choice = DeviceChoice::parse("cuda:[0,2]");
//   RunDevices devices = start_devices(choice, plugins, {.num_cores = 8}, context);
//   const auto backend = devices.make_backend(normalisation, context.log);
//   fit({..., .devices = threads, .backend = backend.get()}, options);
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/pjrt/client.h"
#include "tools/command.h"
#include "tools/plugins/plugin_options.h"
#include "trainer/backend.h"
#include "trainer/hlo/program.h"

namespace millrace::tools {

struct DeviceChoice {
  std::string kind = {};                   ///< "cuda", "xla-cpu"; empty: cores
  std::string cores = {};                  ///< as DeviceSet::parse() takes them
  std::vector<std::int64_t> numbers = {};  ///< of a plugin's devices; empty: all

  /// "8", "[0,2]"; "tpu", "cuda:2", "cuda:[0,3]", "xla-cpu:8". Throws: InvalidArgument.
  static DeviceChoice parse(const std::string& text);

  bool is_cores() const { return kind.empty(); }
  /// Whether images are brought as bytes, which the device's programs normalise.
  bool takes_bytes() const { return !is_cores(); }
  /// The same of words apart, as Lightning has them: "gpu" and "2", "auto" and "cuda:2".
  static DeviceChoice parse(const std::string& accelerator, const std::string& devices);

  /// Whether several processes' plugins of this kind are told of each other when they start.
  bool is_told_of_others(const PluginOptions& plugins) const;
  /// How many are named; 1 for all of a plugin's, which are known when it has started.
  int count() const;
  /// Throws: InvalidArgument, with those that there are, for a kind that no plugin is known for;
  /// and for cores of which something is asked that only a plugin can.
  void check(const PluginOptions& plugins) const;
};

struct RunDevices {
  device::DeviceSet set;
  std::shared_ptr<const device::pjrt::Client> client = nullptr;  ///< null: cores
  /// PjrtBackendOptions::assignment.
  std::vector<std::int64_t> assignment = {};

  /// Of images that come as bytes (DeviceChoice::takes_bytes()). Null: the CPU's.
  std::unique_ptr<trainer::Backend> make_backend(const trainer::hlo::Normalisation& bytes,
                                                 const Log& log) const;
};

/// Starts a plugin's devices, in a run of several processes with its `network`: says after two
/// seconds that it waits, and for what. Throws: NotFound, with what to install, where there is no
/// plugin; Exhausted if it takes longer than plugins.timeout; InvalidArgument for a device that it
/// does not have; as Plugin and Client.
RunDevices start_devices(const DeviceChoice& choice, const PluginOptions& plugins,
                         const device::DeviceSetOptions& cores, const CommandContext& context,
                         const device::pjrt::Network& network = {});

}  // namespace millrace::tools
