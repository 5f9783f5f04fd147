#include "device/pjrt/topology.h"

#include <string_view>
#include <utility>

#include "device/pjrt/detail/api.h"
#include "device/pjrt/detail/compile.h"
#include "io/base/error.h"

namespace millrace::device::pjrt {
namespace {

// Not every compiler says.
void add_work(const Api& api, PJRT_Executable* executable, ProgramCost& cost) {
  auto work = arguments_of<functions::Executable_GetCostAnalysis>();
  work.executable = executable;
  try {
    api.call<functions::Executable_GetCostAnalysis>(work, "a program's work");
  } catch (const Error&) {
    return;
  }
  for (std::size_t i = 0; i < work.num_properties; ++i) {
    const PJRT_NamedValue& property = work.properties[i];
    if (property.type != PJRT_NamedValue_kFloat) continue;
    const std::string_view name(property.name, property.name_size);
    if (name == "flops") cost.flops = property.float_value;
    if (name == "bytes accessed") cost.bytes_accessed = property.float_value;
  }
}

ProgramCost cost_of(const Api& api, PJRT_Executable* executable) {
  auto memory = arguments_of<functions::Executable_GetCompiledMemoryStats>();
  memory.executable = executable;
  api.call<functions::Executable_GetCompiledMemoryStats>(memory, "a program's memory");
  ProgramCost cost{.argument_bytes = memory.argument_size_in_bytes,
                   .result_bytes = memory.output_size_in_bytes,
                   .aliased_bytes = memory.alias_size_in_bytes,
                   .temporary_bytes = memory.temp_size_in_bytes};
  add_work(api, executable, cost);
  return cost;
}

}  // namespace

struct Topology::State {
  std::shared_ptr<const Api> api;
  OwnedTopology topology;
  std::vector<DeviceInfo> devices;

  State(const Plugin& plugin, const TopologyOptions& options)
      : api(plugin.api()), topology(*api, create(options)) {
    auto list = arguments_of<functions::TopologyDescription_GetDeviceDescriptions>();
    list.topology = topology.get();
    api->call<functions::TopologyDescription_GetDeviceDescriptions>(list, "the devices");
    for (std::size_t i = 0; i < list.num_descriptions; ++i)
      devices.push_back(device_info(*api, list.descriptions[i]));
  }

 private:
  PJRT_TopologyDescription* create(const TopologyOptions& options) const {
    api->check_topologies();
    std::vector<PJRT_NamedValue> settings;
    for (const auto& [name, value] : options.settings) settings.push_back(named(name, value));
    auto arguments = arguments_of<functions::TopologyDescription_Create>();
    arguments.topology_name = options.name.data();
    arguments.topology_name_size = options.name.size();
    arguments.create_options = settings.data();
    arguments.num_options = settings.size();
    api->call<functions::TopologyDescription_Create>(arguments, "topology " + options.name);
    return arguments.topology;
  }
};

Topology::Topology(const Plugin& plugin, const TopologyOptions& options)
    : state_(std::make_unique<State>(plugin, options)) {}
Topology::~Topology() = default;

const std::vector<DeviceInfo>& Topology::devices() const { return state_->devices; }

ProgramCost Topology::compile(std::string_view stablehlo, const CompileOptions& options) const {
  const PJRT_Program program = program_of(stablehlo);
  const std::string settings = compile_options(options, state_->devices);
  auto arguments = arguments_of<functions::Compile>();
  arguments.topology = state_->topology.get();
  arguments.program = &program;
  arguments.compile_options = settings.data();
  arguments.compile_options_size = settings.size();
  state_->api->call<functions::Compile>(arguments, "a program's compilation");
  const OwnedExecutable executable(*state_->api, arguments.executable);
  return cost_of(*state_->api, executable.get());
}

}  // namespace millrace::device::pjrt
