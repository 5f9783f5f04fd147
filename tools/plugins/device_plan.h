// plan_device: a step's program compiled for an accelerator that need not be there: whether it
// fits, the least time that it takes, and whether the input keeps up. What a compiler has said of a
// program is kept in $XDG_CACHE_HOME/millrace/plans, as compiling takes minutes.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>

#include "tools/command.h"
#include "tools/plugins/accelerator.h"
#include "tools/plugins/plugin_options.h"

namespace millrace::tools {

struct DevicePlanRequest {
  std::string device = {};   ///< a word of accelerator_of()
  std::string program = {};  ///< a StableHLO module: the step of one replica of all the devices'
  std::int64_t batch_size = 0;
  double input_rate = 0;  ///< samples/s that the devices' machine delivers; 0: unknown
  PluginOptions plugins = {};
};

/// Prints the plan. With a plugin named it is compiled in this process, else by one of its own.
/// Throws: NotFound if no plugin for the device is installed; Exhausted if compiling takes longer
/// than the time given; as Topology::compile().
void plan_device(const DevicePlanRequest& request, CommandContext& context);

}  // namespace millrace::tools
