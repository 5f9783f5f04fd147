// Accelerators by name, for `millrace plan --device`: what their plugin is, and what their makers
// say of them.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "device/pjrt/topology.h"

namespace millrace::tools {

struct Accelerator {
  std::string plugin;  ///< in the plugin's name: "libtpu", "cuda"
  std::string pip;     ///< the package that has it
  device::pjrt::TopologyOptions topology;
  device::pjrt::CompileOptions compile;  ///< its flags
  int devices = 1;
  /// Of each device: bf16 products with float32 sums, FLOP/s; memory, bytes and bytes/s.
  double flops_per_s = 0;
  double bytes_per_s = 0;
  double memory_bytes = 0;
};

/// "v5e:2x4" (TPU v4, v5e, v5p or v6e, with the shape of the slice), "h100", "a100" (one device),
/// or "h100:8". Throws: InvalidArgument, with the names that there are.
Accelerator accelerator_of(const std::string& word);

}  // namespace millrace::tools
