#include "tests/device/network_plugin.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::testing {
namespace {

constexpr int kPatience = 60'000;  // milliseconds

PJRT_Api real;
PJRT_Client_Create_Args started;  // its callbacks
std::int64_t node = 0;
std::int64_t nodes = 0;
std::size_t own = 1;  // devices of each process
PJRT_Client* client = nullptr;
std::vector<PJRT_Device*> devices;  // of all processes
int runs = 0;

std::string failure_text;
PJRT_Error failure{"", PJRT_Error_Code_INTERNAL};

PJRT_Error* fail(PJRT_Error_Code code, const char* message, std::size_t size) {
  failure_text.assign(message, size);
  failure = {failure_text.c_str(), code};
  return &failure;
}
PJRT_CallbackError make_failure = fail;

void message(PJRT_Error_Message_Args* args) {
  if (args->error != &failure) return real.PJRT_Error_Message(args);
  args->message = failure.message;
  args->message_size = failure_text.size();
}
void destroy(PJRT_Error_Destroy_Args* args) {
  if (args->error != &failure) real.PJRT_Error_Destroy(args);
}
PJRT_Error* code(PJRT_Error_GetCode_Args* args) {
  if (args->error != &failure) return real.PJRT_Error_GetCode(args);
  args->code = failure.code;
  return nullptr;
}

PJRT_Error* put(const std::string& key, const std::string& value) {
  PJRT_KeyValuePutCallback_Args args{};
  args.struct_size = sizeof(args);
  args.key = key.data();
  args.key_size = key.size();
  args.value = value.data();
  args.value_size = value.size();
  args.callback_error = &make_failure;
  args.user_arg = started.kv_put_user_arg;
  return started.kv_put_callback(&args);
}

PJRT_Error* get(const std::string& key, std::string& value) {
  PJRT_KeyValueGetCallback_Args args{};
  args.struct_size = sizeof(args);
  args.key = key.data();
  args.key_size = key.size();
  args.timeout_in_ms = kPatience;
  args.callback_error = &make_failure;
  args.user_arg = started.kv_get_user_arg;
  if (PJRT_Error* const error = started.kv_get_callback(&args)) return error;
  value.assign(args.value, args.value_size);
  args.value_deleter_callback(args.value);
  return nullptr;
}

// Who has not been put yet is not there.
PJRT_Error* check_absent(const std::string& key) {
  PJRT_KeyValueTryGetCallback_Args args{};
  args.struct_size = sizeof(args);
  args.key = key.data();
  args.key_size = key.size();
  args.callback_error = &make_failure;
  args.user_arg = started.kv_try_get_user_arg;
  PJRT_Error* const error = started.kv_try_get_callback(&args);
  if (error == &failure && failure.code == PJRT_Error_Code_NOT_FOUND) return nullptr;
  constexpr std::string_view kFound = "a key that nobody has put";
  return fail(PJRT_Error_Code_INTERNAL, kFound.data(), kFound.size());
}

std::int64_t setting(const PJRT_Client_Create_Args& args, std::string_view name) {
  for (std::size_t i = 0; i < args.num_options; ++i) {
    const PJRT_NamedValue& one = args.create_options[i];
    if (name == std::string_view(one.name, one.name_size)) return one.int64_value;
  }
  return 0;
}

PJRT_Error* meet() {
  if (PJRT_Error* const error = check_absent("nobody")) return error;
  if (PJRT_Error* const error = put("here/" + std::to_string(node), "yes")) return error;
  std::string said;
  for (std::int64_t other = 0; other < nodes; ++other)
    if (PJRT_Error* const error = get("here/" + std::to_string(other), said)) return error;
  return nullptr;
}

PJRT_Error* create(PJRT_Client_Create_Args* args) {
  node = setting(*args, "node_id");
  nodes = setting(*args, "num_nodes");
  if (nodes == 0) {
    constexpr std::string_view kNone = "no other processes were named";
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, kNone.data(), kNone.size());
  }
  started = *args;
  if (PJRT_Error* const error = meet()) return error;
  constexpr std::string_view kName = "cpu_device_count";
  PJRT_NamedValue count{};
  count.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  count.name = kName.data();
  count.name_size = kName.size();
  count.type = PJRT_NamedValue_kInt64;
  count.int64_value = nodes * static_cast<std::int64_t>(own);
  count.value_size = 1;
  args->create_options = &count;
  args->num_options = 1;
  PJRT_Error* const error = real.PJRT_Client_Create(args);
  client = args->client;
  return error;
}

PJRT_Error* number(PJRT_Client_ProcessIndex_Args* args) {
  args->process_index = static_cast<int>(node);
  return nullptr;
}

PJRT_Error* own_devices(PJRT_Client_AddressableDevices_Args* args) {
  if (PJRT_Error* const error = real.PJRT_Client_AddressableDevices(args)) return error;
  devices.assign(args->addressable_devices,
                 args->addressable_devices + args->num_addressable_devices);
  args->addressable_devices = devices.data() + static_cast<std::size_t>(node) * own;
  args->num_addressable_devices = own;
  return nullptr;
}

PJRT_Error* wait(PJRT_Event* event) {
  if (event == nullptr) return nullptr;
  PJRT_Event_Await_Args await{};
  await.struct_size = PJRT_Event_Await_Args_STRUCT_SIZE;
  await.event = event;
  PJRT_Error* const error = real.PJRT_Event_Await(&await);
  PJRT_Event_Destroy_Args done{};
  done.struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE;
  done.event = event;
  real.PJRT_Event_Destroy(&done);
  return error;
}

template <typename T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T take(std::string_view& from) {
  T value;
  std::memcpy(&value, from.data(), sizeof(value));
  from.remove_prefix(sizeof(value));
  return value;
}

// Its type, dimensions and bytes.
PJRT_Error* append_buffer(std::string& to, PJRT_Buffer* buffer) {
  PJRT_Buffer_ElementType_Args type{};
  type.struct_size = PJRT_Buffer_ElementType_Args_STRUCT_SIZE;
  type.buffer = buffer;
  if (PJRT_Error* const error = real.PJRT_Buffer_ElementType(&type)) return error;
  PJRT_Buffer_Dimensions_Args shape{};
  shape.struct_size = PJRT_Buffer_Dimensions_Args_STRUCT_SIZE;
  shape.buffer = buffer;
  if (PJRT_Error* const error = real.PJRT_Buffer_Dimensions(&shape)) return error;
  PJRT_Buffer_ToHostBuffer_Args copy{};
  copy.struct_size = PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE;
  copy.src = buffer;
  if (PJRT_Error* const error = real.PJRT_Buffer_ToHostBuffer(&copy)) return error;
  append(to, type.type);
  append(to, shape.num_dims);
  for (std::size_t i = 0; i < shape.num_dims; ++i) append(to, shape.dims[i]);
  append(to, copy.dst_size);
  const std::size_t at = to.size();
  to.resize(at + copy.dst_size);
  copy.dst = to.data() + at;
  if (PJRT_Error* const error = real.PJRT_Buffer_ToHostBuffer(&copy)) return error;
  return wait(copy.event);
}

PJRT_Error* take_buffer(std::string_view& from, PJRT_Device* device, PJRT_Buffer*& buffer) {
  PJRT_Client_BufferFromHostBuffer_Args copy{};
  copy.struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE;
  copy.client = client;
  copy.type = take<PJRT_Buffer_Type>(from);
  std::vector<std::int64_t> shape(take<std::size_t>(from));
  for (std::int64_t& one : shape) one = take<std::int64_t>(from);
  const auto size = take<std::size_t>(from);
  copy.data = from.data();
  copy.dims = shape.data();
  copy.num_dims = shape.size();
  copy.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  copy.device = device;
  if (PJRT_Error* const error = real.PJRT_Client_BufferFromHostBuffer(&copy)) return error;
  from.remove_prefix(size);
  buffer = copy.buffer;
  return wait(copy.done_with_host_buffer);
}

void destroy_all(const std::vector<PJRT_Buffer*>& buffers) {
  for (PJRT_Buffer* const buffer : buffers) {
    PJRT_Buffer_Destroy_Args args{};
    args.struct_size = PJRT_Buffer_Destroy_Args_STRUCT_SIZE;
    args.buffer = buffer;
    real.PJRT_Buffer_Destroy(&args);
  }
}

PJRT_Error* count_results(PJRT_LoadedExecutable* program, std::size_t& count) {
  PJRT_LoadedExecutable_GetExecutable_Args get_executable{};
  get_executable.struct_size = PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE;
  get_executable.loaded_executable = program;
  if (PJRT_Error* const error = real.PJRT_LoadedExecutable_GetExecutable(&get_executable))
    return error;
  PJRT_Executable_NumOutputs_Args outputs{};
  outputs.struct_size = PJRT_Executable_NumOutputs_Args_STRUCT_SIZE;
  outputs.executable = get_executable.executable;
  PJRT_Error* const error = real.PJRT_Executable_NumOutputs(&outputs);
  count = outputs.num_outputs;
  PJRT_Executable_Destroy_Args done{};
  done.struct_size = PJRT_Executable_Destroy_Args_STRUCT_SIZE;
  done.executable = get_executable.executable;
  real.PJRT_Executable_Destroy(&done);
  return error;
}

// The arguments of all replicas: this process's own, and the others' copies.
PJRT_Error* share_arguments(const PJRT_LoadedExecutable_Execute_Args& args,
                            std::vector<std::vector<PJRT_Buffer*>>& all) {
  const std::string run = "run/" + std::to_string(runs++) + "/";
  std::string mine;
  for (std::size_t d = 0; d < own; ++d)
    for (std::size_t i = 0; i < args.num_args; ++i)
      if (PJRT_Error* const error = append_buffer(mine, args.argument_lists[d][i])) return error;
  if (PJRT_Error* const error = put(run + std::to_string(node), mine)) return error;
  for (std::int64_t process = 0; process < nodes; ++process) {
    std::string said;
    if (PJRT_Error* const error = get(run + std::to_string(process), said)) return error;
    std::string_view rest = said;
    for (std::size_t d = 0; d < own; ++d) {
      const std::size_t replica = static_cast<std::size_t>(process) * own + d;
      all[replica].resize(args.num_args);
      for (std::size_t i = 0; i < args.num_args; ++i) {
        if (process == node)
          all[replica][i] = args.argument_lists[d][i];
        else if (PJRT_Error* const error = take_buffer(rest, devices[replica], all[replica][i]))
          return error;
      }
    }
  }
  return nullptr;
}

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  if (args->execute_device != nullptr) return real.PJRT_LoadedExecutable_Execute(args);
  std::size_t results = 0;
  if (PJRT_Error* const error = count_results(args->executable, results)) return error;
  std::vector<std::vector<PJRT_Buffer*>> inputs(devices.size());
  if (PJRT_Error* const error = share_arguments(*args, inputs)) return error;
  std::vector<std::vector<PJRT_Buffer*>> outputs(devices.size(),
                                                 std::vector<PJRT_Buffer*>(results));
  std::vector<PJRT_Buffer* const*> input_lists;
  std::vector<PJRT_Buffer**> output_lists;
  const std::size_t first = static_cast<std::size_t>(node) * own;
  const auto is_own = [&](std::size_t replica) {
    return replica >= first && replica < first + own;
  };
  for (std::size_t r = 0; r < devices.size(); ++r) {
    input_lists.push_back(inputs[r].data());
    output_lists.push_back(is_own(r) ? args->output_lists[r - first] : outputs[r].data());
  }
  PJRT_LoadedExecutable_Execute_Args whole = *args;
  whole.argument_lists = input_lists.data();
  whole.output_lists = output_lists.data();
  whole.num_devices = devices.size();
  PJRT_Error* const error = real.PJRT_LoadedExecutable_Execute(&whole);
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (is_own(r)) continue;
    destroy_all(inputs[r]);
    if (error == nullptr) destroy_all(outputs[r]);
  }
  return error;
}

}  // namespace

void connect_processes(PJRT_Api& table) {
  real = table;
  const char* const count = std::getenv("FAKE_PLUGIN_DEVICES");
  if (count != nullptr) own = static_cast<std::size_t>(std::atoi(count));
  table.PJRT_Error_Message = message;
  table.PJRT_Error_Destroy = destroy;
  table.PJRT_Error_GetCode = code;
  table.PJRT_Client_Create = create;
  table.PJRT_Client_ProcessIndex = number;
  table.PJRT_Client_AddressableDevices = own_devices;
  table.PJRT_LoadedExecutable_Execute = execute;
}

}  // namespace millrace::testing
