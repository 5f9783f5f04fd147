#include "device/pjrt/topology.h"

#include <string_view>
#include <utility>

#include "device/pjrt/detail/api.h"
#include "device/pjrt/detail/compile.h"
#include "io/base/error.h"

namespace millrace::device::pjrt {
namespace {

PJRT_NamedValue named(const std::string& name, const std::string& value) {
  PJRT_NamedValue setting{};
  setting.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  setting.name = name.data();
  setting.name_size = name.size();
  setting.type = PJRT_NamedValue_kString;
  setting.string_value = value.data();
  setting.value_size = value.size();
  return setting;
}

// A compiled program that cannot run here.
class Executable {
 public:
  Executable(const Api& api, PJRT_Executable* handle) : api_(api), handle_(handle) {}
  ~Executable() {
    auto arguments = arguments_of<functions::Executable_Destroy>();
    arguments.executable = handle_;
    api_.release<functions::Executable_Destroy>(arguments);
  }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  ProgramCost cost() const {
    auto memory = arguments_of<functions::Executable_GetCompiledMemoryStats>();
    memory.executable = handle_;
    api_.call<functions::Executable_GetCompiledMemoryStats>(memory, "a program's memory");
    ProgramCost cost{.argument_bytes = memory.argument_size_in_bytes,
                     .result_bytes = memory.output_size_in_bytes,
                     .aliased_bytes = memory.alias_size_in_bytes,
                     .temporary_bytes = memory.temp_size_in_bytes};
    add_work(cost);
    return cost;
  }

 private:
  // Not every compiler says.
  void add_work(ProgramCost& cost) const {
    auto work = arguments_of<functions::Executable_GetCostAnalysis>();
    work.executable = handle_;
    try {
      api_.call<functions::Executable_GetCostAnalysis>(work, "a program's work");
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

  const Api& api_;
  PJRT_Executable* handle_;
};

}  // namespace

struct Topology::State {
  std::shared_ptr<const Api> api;
  PJRT_TopologyDescription* topology = nullptr;
  std::vector<DeviceInfo> devices;

  State(const Plugin& plugin, const TopologyOptions& options) : api(plugin.api()) {
    api->check_topologies();
    std::vector<PJRT_NamedValue> settings;
    for (const auto& [name, value] : options.settings) settings.push_back(named(name, value));
    auto create = arguments_of<functions::TopologyDescription_Create>();
    create.topology_name = options.name.data();
    create.topology_name_size = options.name.size();
    create.create_options = settings.data();
    create.num_options = settings.size();
    api->call<functions::TopologyDescription_Create>(create, "topology " + options.name);
    topology = create.topology;
    try {
      describe();
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~State() { destroy(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

 private:
  void describe() {
    auto list = arguments_of<functions::TopologyDescription_GetDeviceDescriptions>();
    list.topology = topology;
    api->call<functions::TopologyDescription_GetDeviceDescriptions>(list, "the devices");
    for (std::size_t i = 0; i < list.num_descriptions; ++i)
      devices.push_back(device_info(*api, list.descriptions[i]));
  }
  void destroy() {
    auto arguments = arguments_of<functions::TopologyDescription_Destroy>();
    arguments.topology = topology;
    api->release<functions::TopologyDescription_Destroy>(arguments);
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
  arguments.topology = state_->topology;
  arguments.program = &program;
  arguments.compile_options = settings.data();
  arguments.compile_options_size = settings.size();
  state_->api->call<functions::Compile>(arguments, "a program's compilation");
  return Executable(*state_->api, arguments.executable).cost();
}

}  // namespace millrace::device::pjrt
