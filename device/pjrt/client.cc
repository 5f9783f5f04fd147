#include "device/pjrt/client.h"

#include <algorithm>
#include <utility>

#include "device/pjrt/detail/api.h"
#include "device/pjrt/detail/compile.h"
#include "device/pjrt/detail/key_value_callbacks.h"
#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::device::pjrt {
namespace {

using ApiPointer = std::shared_ptr<const Api>;

PJRT_Buffer_Type type_of(decode::DType dtype) {
  switch (dtype) {
    case decode::DType::kUInt8:
      return PJRT_Buffer_Type_U8;
    case decode::DType::kUInt16:
      return PJRT_Buffer_Type_U16;
    case decode::DType::kInt64:
      return PJRT_Buffer_Type_S64;
    case decode::DType::kFloat32:
      return PJRT_Buffer_Type_F32;
    case decode::DType::kBFloat16:
      return PJRT_Buffer_Type_BF16;
    case decode::DType::kFloat16:
      return PJRT_Buffer_Type_F16;
  }
  return PJRT_Buffer_Type_INVALID;
}

}  // namespace

struct Client::State {
  ApiPointer api;
  Patience patience;
  std::shared_ptr<KeyValueStore> store;  // which the plugin's threads ask
  OwnedClient client;
  std::string platform;
  std::string platform_version;
  std::vector<PJRT_Device*> handles;
  std::vector<DeviceInfo> devices;
  std::vector<std::int64_t> all_devices;
  int process = 0;

  State(const Plugin& plugin, const ClientOptions& options)
      : api(plugin.api()),
        patience{.limit = options.limit, .log = options.log},
        store(options.network.store),
        client(*api, create(options)) {
    describe(options.devices);
    find_others();
  }

 private:
  PJRT_Client* create(const ClientOptions& options) const {
    static const std::string kCount = "cpu_device_count";
    static const std::string kNode = "node_id";
    static const std::string kNodes = "num_nodes";
    std::vector<PJRT_NamedValue> settings;
    auto arguments = arguments_of<functions::Client_Create>();
    if (options.cpu_devices > 0) settings.push_back(named(kCount, options.cpu_devices));
    if (store != nullptr) {
      settings.push_back(named(kNode, std::int64_t{options.network.process}));
      settings.push_back(named(kNodes, std::int64_t{options.network.processes}));
      set_callbacks(arguments, *store);
    }
    arguments.create_options = settings.data();
    arguments.num_options = settings.size();
    api->call<functions::Client_Create>(arguments, api->file() + ": the plugin failed to start");
    return arguments.client;
  }

  void describe(const std::vector<std::int64_t>& wanted) {
    auto name = arguments_of<functions::Client_PlatformName>();
    name.client = client.get();
    api->call<functions::Client_PlatformName>(name, "the platform's name");
    platform.assign(name.platform_name, name.platform_name_size);
    auto version = arguments_of<functions::Client_PlatformVersion>();
    version.client = client.get();
    api->call<functions::Client_PlatformVersion>(version, "the platform's version");
    platform_version.assign(version.platform_version, version.platform_version_size);
    auto list = arguments_of<functions::Client_AddressableDevices>();
    list.client = client.get();
    api->call<functions::Client_AddressableDevices>(list, "the devices");
    handles = chosen({list.addressable_devices, list.num_addressable_devices}, wanted);
    for (PJRT_Device* const device : handles) devices.push_back(describe(device));
  }

  // A plugin that says nothing of others connects none.
  void find_others() {
    for (const DeviceInfo& own : devices) all_devices.push_back(own.id);
    if (!api->has<functions::Client_Devices>() || !api->has<functions::Client_ProcessIndex>())
      return;
    auto index = arguments_of<functions::Client_ProcessIndex>();
    index.client = client.get();
    api->call<functions::Client_ProcessIndex>(index, "the process's number");
    process = index.process_index;
    auto list = arguments_of<functions::Client_Devices>();
    list.client = client.get();
    api->call<functions::Client_Devices>(list, "the devices of all processes");
    if (list.num_devices > 0) all_devices.clear();
    for (PJRT_Device* const device : std::span(list.devices, list.num_devices))
      all_devices.push_back(description_of(device).id);
  }

  std::vector<PJRT_Device*> chosen(std::span<PJRT_Device* const> all,
                                   const std::vector<std::int64_t>& wanted) const {
    if (wanted.empty()) return {all.begin(), all.end()};
    std::vector<PJRT_Device*> some;
    for (const std::int64_t place : wanted) {
      if (place < 0 || static_cast<std::size_t>(place) >= all.size())
        throw Error(ErrorCode::kInvalidArgument, "device " + std::to_string(place) +
                                                     " is not there: " + platform + " has " +
                                                     counted(all.size(), "device"));
      some.push_back(all[static_cast<std::size_t>(place)]);
    }
    return some;
  }

  DeviceInfo description_of(PJRT_Device* device) const {
    auto get = arguments_of<functions::Device_GetDescription>();
    get.device = device;
    api->call<functions::Device_GetDescription>(get, "a device's description");
    return device_info(*api, get.device_description);
  }

  DeviceInfo describe(PJRT_Device* device) const {
    DeviceInfo info = description_of(device);
    info.memory = memory_of(device);
    return info;
  }

  // Not every plugin says.
  std::optional<std::int64_t> memory_of(PJRT_Device* device) const {
    auto stats = arguments_of<functions::Device_MemoryStats>();
    stats.device = device;
    try {
      api->call<functions::Device_MemoryStats>(stats, "a device's memory");
    } catch (const Error&) {
      return std::nullopt;
    }
    if (!stats.bytes_limit_is_set || stats.bytes_limit <= 0) return std::nullopt;
    return stats.bytes_limit;
  }
};

struct Buffer::State {
  std::shared_ptr<Client::State> client;
  OwnedBuffer buffer;

  State(std::shared_ptr<Client::State> owner, PJRT_Buffer* handle)
      : client(std::move(owner)), buffer(*client->api, handle) {}
};

Buffer::Buffer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(Buffer&&) noexcept = default;
Buffer::~Buffer() = default;

// By a block of memory that the plugin may write to after nobody waits any more.
void Buffer::read(std::span<std::byte> to) const {
  const Api& api = *state_->client->api;
  const Patience& patience = state_->client->patience;
  auto size = arguments_of<functions::Buffer_ToHostBuffer>();
  size.src = state_->buffer.get();
  api.call<functions::Buffer_ToHostBuffer>(size, "the size of a result");
  if (size.event != nullptr) api.await(size.event, "the size of a result", patience);
  MILLRACE_CHECK(size.dst_size == to.size(), "a buffer is read into as many bytes as it has");
  const auto block = std::make_shared<std::vector<std::byte>>(to.size());
  auto arguments = arguments_of<functions::Buffer_ToHostBuffer>();
  arguments.src = state_->buffer.get();
  arguments.dst = block->data();
  arguments.dst_size = block->size();
  api.call<functions::Buffer_ToHostBuffer>(arguments, "a copy from the device");
  api.await(arguments.event, "a copy from the device", patience, block);
  std::ranges::copy(*block, to.begin());
}

void Buffer::wait() const {
  const Api& api = *state_->client->api;
  auto arguments = arguments_of<functions::Buffer_ReadyEvent>();
  arguments.buffer = state_->buffer.get();
  api.call<functions::Buffer_ReadyEvent>(arguments, "a result of the device");
  api.await(arguments.event, "a result of the device", state_->client->patience);
}

struct Program::State {
  std::shared_ptr<Client::State> client;
  OwnedLoadedExecutable executable;
  std::size_t replicas;
  std::size_t results;

  State(std::shared_ptr<Client::State> owner, PJRT_LoadedExecutable* handle,
        const CompileOptions& options)
      : client(std::move(owner)),
        executable(*client->api, handle),
        replicas(count_own(options)),
        results(count_results()) {}

  /// `device`: of a portable program; null otherwise.
  std::vector<std::vector<Buffer>> run(const std::vector<std::vector<const Buffer*>>& arguments,
                                       PJRT_Device* device) const;

 private:
  // Of the replicas, those on this process's devices.
  std::size_t count_own(const CompileOptions& options) const {
    const std::vector<std::int64_t> ids = assigned(options, client->devices);
    return static_cast<std::size_t>(std::ranges::count_if(client->devices, [&](const auto& own) {
      return std::ranges::find(ids, own.id) != ids.end();
    }));
  }

  std::size_t count_results() const {
    const Api& api = *client->api;
    auto get = arguments_of<functions::LoadedExecutable_GetExecutable>();
    get.loaded_executable = executable.get();
    api.call<functions::LoadedExecutable_GetExecutable>(get, "a program's results");
    const OwnedExecutable owned(api, get.executable);
    auto count = arguments_of<functions::Executable_NumOutputs>();
    count.executable = owned.get();
    api.call<functions::Executable_NumOutputs>(count, "a program's results");
    return count.num_outputs;
  }
};

Program::Program(std::unique_ptr<State> state) : state_(std::move(state)) {}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

std::size_t Program::num_results() const { return state_->results; }

std::optional<std::string> Program::serialised() const {
  const Api& api = *state_->client->api;
  if (!api.has<functions::Executable_Serialize>()) return std::nullopt;
  auto get = arguments_of<functions::LoadedExecutable_GetExecutable>();
  get.loaded_executable = state_->executable.get();
  api.call<functions::LoadedExecutable_GetExecutable>(get, "a compiled program");
  const OwnedExecutable owned(api, get.executable);
  auto arguments = arguments_of<functions::Executable_Serialize>();
  arguments.executable = owned.get();
  try {
    api.call<functions::Executable_Serialize>(arguments, "a compiled program");
  } catch (const Error&) {
    return std::nullopt;
  }
  std::string bytes(arguments.serialized_bytes, arguments.serialized_bytes_size);
  arguments.serialized_executable_deleter(arguments.serialized_executable);
  return bytes;
}

std::vector<std::vector<Buffer>> Program::State::run(
    const std::vector<std::vector<const Buffer*>>& arguments, PJRT_Device* device) const {
  const std::size_t count = arguments.size();
  std::vector<std::vector<PJRT_Buffer*>> inputs(count);
  std::vector<std::vector<PJRT_Buffer*>> outputs(count, std::vector<PJRT_Buffer*>(results));
  std::vector<PJRT_Buffer* const*> input_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (std::size_t r = 0; r < count; ++r) {
    MILLRACE_CHECK(arguments[r].size() == arguments[0].size(),
                   "all replicas have as many arguments");
    for (const Buffer* const buffer : arguments[r])
      inputs[r].push_back(buffer->state_->buffer.get());
    input_lists.push_back(inputs[r].data());
    output_lists.push_back(outputs[r].data());
  }
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  auto call = arguments_of<functions::LoadedExecutable_Execute>();
  call.executable = executable.get();
  call.options = &options;
  call.argument_lists = input_lists.data();
  call.num_devices = count;
  call.num_args = arguments[0].size();
  call.output_lists = output_lists.data();
  call.execute_device = device;
  client->api->call<functions::LoadedExecutable_Execute>(call, "a program's run");
  std::vector<std::vector<Buffer>> all(count);
  for (std::size_t r = 0; r < count; ++r) {
    for (PJRT_Buffer* const output : outputs[r])
      all[r].push_back(Buffer(std::make_unique<Buffer::State>(client, output)));
  }
  return all;
}

std::vector<std::vector<Buffer>> Program::run(
    const std::vector<std::vector<const Buffer*>>& arguments) const {
  MILLRACE_CHECK(arguments.size() == state_->replicas,
                 "a program has arguments for each of the process's replicas");
  return state_->run(arguments, nullptr);
}

std::vector<Buffer> Program::run_on(std::size_t device,
                                    const std::vector<const Buffer*>& arguments) const {
  MILLRACE_CHECK(device < state_->client->handles.size(), "a device of this client");
  return std::move(state_->run({arguments}, state_->client->handles[device]).front());
}

Client::Client(const Plugin& plugin, const ClientOptions& options)
    : state_(std::make_shared<State>(plugin, options)) {}
Client::~Client() = default;

const std::string& Client::platform() const { return state_->platform; }
const std::string& Client::platform_version() const { return state_->platform_version; }
const std::vector<DeviceInfo>& Client::devices() const { return state_->devices; }
const std::vector<std::int64_t>& Client::all_devices() const { return state_->all_devices; }
int Client::process() const { return state_->process; }

Buffer Client::copy_in(std::size_t device, const HostArray& array) const {
  MILLRACE_CHECK(device < state_->handles.size(), "a device of this client");
  const auto bytes =
      static_cast<std::size_t>(array.spec.num_values()) * decode::dtype_size(array.spec.dtype);
  MILLRACE_CHECK(array.data.size() == bytes, "an array has the bytes of its shape");
  auto arguments = arguments_of<functions::Client_BufferFromHostBuffer>();
  arguments.client = state_->client.get();
  arguments.data = array.data.data();
  arguments.type = type_of(array.spec.dtype);
  arguments.dims = array.spec.shape.data();
  arguments.num_dims = array.spec.shape.size();
  arguments.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  arguments.device = state_->handles[device];
  state_->api->call<functions::Client_BufferFromHostBuffer>(arguments, "a copy to the device");
  Buffer buffer(std::make_unique<Buffer::State>(state_, arguments.buffer));
  state_->api->await(arguments.done_with_host_buffer, "a copy to the device", state_->patience);
  return buffer;
}

Program Client::compile(std::string_view stablehlo, const CompileOptions& options) const {
  const PJRT_Program program = program_of(stablehlo);
  const std::string settings = compile_options(options, state_->devices);
  auto arguments = arguments_of<functions::Client_Compile>();
  arguments.client = state_->client.get();
  arguments.program = &program;
  arguments.compile_options = settings.data();
  arguments.compile_options_size = settings.size();
  state_->api->call<functions::Client_Compile>(arguments, "a program's compilation");
  return Program(std::make_unique<Program::State>(state_, arguments.executable, options));
}

Program Client::load(std::string_view serialised, const CompileOptions& options) const {
  if (!state_->api->has<functions::Executable_DeserializeAndLoad>())
    throw Error(ErrorCode::kUnsupported, "the plugin loads no compiled programs");
  const std::string settings = compile_options(options, state_->devices);
  auto arguments = arguments_of<functions::Executable_DeserializeAndLoad>();
  arguments.client = state_->client.get();
  arguments.serialized_executable = serialised.data();
  arguments.serialized_executable_size = serialised.size();
  arguments.overridden_serialized_compile_options = settings.data();
  arguments.overridden_serialized_compile_options_size = settings.size();
  state_->api->call<functions::Executable_DeserializeAndLoad>(arguments, "a compiled program");
  return Program(std::make_unique<Program::State>(state_, arguments.loaded_executable, options));
}

}  // namespace millrace::device::pjrt
