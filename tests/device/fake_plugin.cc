// A plugin that does what the environment says: FAKE_PLUGIN=no_table, version, short, fails, stuck,
// aborts, writes (to standard output) or empty; broken is the plugin FAKE_PLUGIN_REAL, whose
// programs fail after FAKE_PLUGIN_RUNS runs, mute the same, which then never answers, and network
// the same, which connects processes.
#include <dlfcn.h>
#include <pjrt_c_api.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/device/network_plugin.h"

namespace {

PJRT_Error memory_error{"out of memory: 17 GiB are needed", PJRT_Error_Code_RESOURCE_EXHAUSTED};

std::string_view mode() {
  const char* const word = std::getenv("FAKE_PLUGIN");
  return word == nullptr ? "" : word;
}

void message(PJRT_Error_Message_Args* args) {
  args->message = args->error->message;
  args->message_size = std::strlen(args->error->message);
}
void destroy_error(PJRT_Error_Destroy_Args*) {}
PJRT_Error* code(PJRT_Error_GetCode_Args* args) {
  args->code = args->error->code;
  return nullptr;
}

// For every function that a test does not reach.
template <class Args>
PJRT_Error* nothing(Args*) {
  return nullptr;
}

PJRT_Error* create(PJRT_Client_Create_Args* args) {
  if (mode() == "aborts") std::abort();
  while (mode() == "stuck") ::sleep(1);
  if (mode() == "writes") std::puts("{ plugin's own words");
  if (mode() == "fails") return &memory_error;
  static char client = 0;
  args->client = reinterpret_cast<PJRT_Client*>(&client);
  return nullptr;
}
PJRT_Error* platform(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = "fake";
  args->platform_name_size = 4;
  return nullptr;
}
PJRT_Error* platform_version(PJRT_Client_PlatformVersion_Args* args) {
  args->platform_version = "1";
  args->platform_version_size = 1;
  return nullptr;
}

PJRT_Api real;  // of "broken" and "mute"
std::atomic<int> runs_left = 0;

void real_message(PJRT_Error_Message_Args* args) {
  args->error == &memory_error ? message(args) : real.PJRT_Error_Message(args);
}
void real_destroy(PJRT_Error_Destroy_Args* args) {
  if (args->error != &memory_error) real.PJRT_Error_Destroy(args);
}
PJRT_Error* real_code(PJRT_Error_GetCode_Args* args) {
  return args->error == &memory_error ? code(args) : real.PJRT_Error_GetCode(args);
}
PJRT_Error* run(PJRT_LoadedExecutable_Execute_Args* args) {
  if (--runs_left < 0 && mode() == "broken") return &memory_error;
  return real.PJRT_LoadedExecutable_Execute(args);
}
PJRT_Error* tell_when_ready(PJRT_Event_OnReady_Args* args) {
  return runs_left < 0 && mode() == "mute" ? nullptr : real.PJRT_Event_OnReady(args);
}

bool load_real() {
  using GetTable = const PJRT_Api* (*)();
  void* const library = ::dlopen(std::getenv("FAKE_PLUGIN_REAL"), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  real = *reinterpret_cast<GetTable>(::dlsym(library, "GetPjrtApi"))();
  return true;
}

void wrap_real(PJRT_Api& table) {
  if (!load_real()) return;
  runs_left = std::atoi(std::getenv("FAKE_PLUGIN_RUNS"));
  table = real;
  table.PJRT_Error_Message = real_message;
  table.PJRT_Error_Destroy = real_destroy;
  table.PJRT_Error_GetCode = real_code;
  table.PJRT_LoadedExecutable_Execute = run;
  table.PJRT_Event_OnReady = tell_when_ready;
}

PJRT_Api make_table() {
  PJRT_Api table{};
  table.struct_size = PJRT_Api_STRUCT_SIZE;
  table.pjrt_api_version.major_version = PJRT_API_MAJOR;
  table.pjrt_api_version.minor_version = PJRT_API_MINOR;
  table.PJRT_Error_Message = message;
  table.PJRT_Error_Destroy = destroy_error;
  table.PJRT_Error_GetCode = code;
  table.PJRT_Plugin_Initialize = nothing;
  table.PJRT_Event_Await = nothing;
  table.PJRT_Event_OnReady = nothing;
  table.PJRT_Event_Destroy = nothing;
  table.PJRT_Client_Create = create;
  table.PJRT_Client_Destroy = nothing;
  table.PJRT_Client_PlatformName = platform;
  table.PJRT_Client_PlatformVersion = platform_version;
  table.PJRT_Client_AddressableDevices = nothing;  // none
  table.PJRT_Client_Compile = nothing;
  table.PJRT_Client_BufferFromHostBuffer = nothing;
  table.PJRT_Device_GetDescription = nothing;
  table.PJRT_Device_MemoryStats = nothing;
  table.PJRT_DeviceDescription_Id = nothing;
  table.PJRT_DeviceDescription_Kind = nothing;
  table.PJRT_Buffer_Destroy = nothing;
  table.PJRT_Buffer_ReadyEvent = nothing;
  table.PJRT_Buffer_ToHostBuffer = nothing;
  table.PJRT_Executable_Destroy = nothing;
  table.PJRT_Executable_NumOutputs = nothing;
  table.PJRT_LoadedExecutable_Destroy = nothing;
  table.PJRT_LoadedExecutable_Execute = nothing;
  table.PJRT_LoadedExecutable_GetExecutable = nothing;
  return table;
}

}  // namespace

extern "C" const PJRT_Api* GetPjrtApi() {
  static PJRT_Api table;
  table = make_table();
  if (mode() == "no_table") return nullptr;
  if (mode() == "broken" || mode() == "mute") wrap_real(table);
  if (mode() == "network" && load_real()) {
    table = real;
    millrace::testing::connect_processes(table);
  }
  if (mode() == "version") table.pjrt_api_version.major_version = 9;
  if (mode() == "short") table.struct_size = offsetof(PJRT_Api, PJRT_Client_Compile);
  return &table;
}
