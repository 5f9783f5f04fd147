// Api: the functions of a plugin that millrace calls.
//
// One list, MILLRACE_PJRT_FUNCTIONS, names them. A plugin may be older or newer than the header: it
// is refused if its table lacks one of them.
#pragma once

#include <pjrt_c_api.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "io/base/log.h"

namespace millrace::device::pjrt {

#define MILLRACE_PJRT_FUNCTIONS(F) \
  F(Plugin_Initialize)             \
  F(Event_Await)                   \
  F(Event_OnReady)                 \
  F(Event_Destroy)                 \
  F(Client_Create)                 \
  F(Client_Destroy)                \
  F(Client_PlatformName)           \
  F(Client_PlatformVersion)        \
  F(Client_AddressableDevices)     \
  F(Client_Compile)                \
  F(Client_BufferFromHostBuffer)   \
  F(Device_GetDescription)         \
  F(Device_MemoryStats)            \
  F(DeviceDescription_Id)          \
  F(DeviceDescription_Kind)        \
  F(Buffer_Destroy)                \
  F(Buffer_ReadyEvent)             \
  F(Buffer_ToHostBuffer)           \
  F(Executable_Destroy)            \
  F(Executable_NumOutputs)         \
  F(LoadedExecutable_Destroy)      \
  F(LoadedExecutable_Execute)      \
  F(LoadedExecutable_GetExecutable)

// Those that only Topology, several processes, or keeping programs, need: a plugin may lack them.
#define MILLRACE_PJRT_MORE_FUNCTIONS(F) \
  F(Client_Devices)                     \
  F(Client_ProcessIndex)                \
  F(Compile)                            \
  F(Executable_Serialize)               \
  F(Executable_DeserializeAndLoad)      \
  F(Executable_GetCompiledMemoryStats)  \
  F(Executable_GetCostAnalysis)         \
  F(TopologyDescription_Create)         \
  F(TopologyDescription_Destroy)        \
  F(TopologyDescription_GetDeviceDescriptions)

// Client_Create is a type: its arguments, their size and its place in the table.
#define MILLRACE_PJRT_TYPE(NAME)                                          \
  struct NAME {                                                           \
    using Args = PJRT_##NAME##_Args;                                      \
    static constexpr std::size_t kSize = PJRT_##NAME##_Args_STRUCT_SIZE;  \
    static constexpr const char* kName = #NAME;                           \
    static auto in(const PJRT_Api* table) { return &table->PJRT_##NAME; } \
  };
namespace functions {
MILLRACE_PJRT_FUNCTIONS(MILLRACE_PJRT_TYPE)
MILLRACE_PJRT_MORE_FUNCTIONS(MILLRACE_PJRT_TYPE)
}  // namespace functions
#undef MILLRACE_PJRT_TYPE

template <class Function>
typename Function::Args arguments_of() {
  typename Function::Args arguments{};
  arguments.struct_size = Function::kSize;
  return arguments;
}

/// How long an event is waited for; 0: without limit. After two seconds the log says for what.
struct Patience {
  std::chrono::seconds limit{0};
  Log log = {};
};

class Api {
 public:
  /// `file` is named in errors. Throws: Unsupported for another major version, or a table without a
  /// function that millrace calls.
  Api(const PJRT_Api* table, std::string file);

  /// Throws: Unsupported if the plugin lacks one of MILLRACE_PJRT_MORE_FUNCTIONS.
  void check_topologies() const;
  /// Whether the plugin has one of MILLRACE_PJRT_MORE_FUNCTIONS.
  template <class Function>
  bool has() const {
    const auto* const begin = reinterpret_cast<const std::byte*>(table_);
    const auto* const place = reinterpret_cast<const std::byte*>(Function::in(table_));
    const auto end = static_cast<std::size_t>(place - begin) + sizeof(void*);
    return table_->struct_size >= end && *Function::in(table_) != nullptr;
  }
  /// Throws: Error, by the status, with the plugin's message behind `what`.
  template <class Function>
  void call(typename Function::Args& arguments, std::string_view what) const {
    PJRT_Error* const error = (*Function::in(table_))(&arguments);
    if (error != nullptr) fail(error, what);
  }
  /// For what is given back: a failure is of no use to anybody.
  template <class Function>
  void release(typename Function::Args& arguments) const {
    PJRT_Error* const error = (*Function::in(table_))(&arguments);
    if (error != nullptr) destroy(error);
  }
  /// Waits for an event, and gives it back. Null: has happened. Throws: Exhausted if it does not
  /// happen within the limit; as call().
  /// `keep` is what the plugin works on: it lives until the event happens, however late.
  void await(PJRT_Event* event, std::string_view what, const Patience& patience,
             std::shared_ptr<const void> keep = {}) const;
  const std::string& file() const { return file_; }
  std::string version() const;

 private:
  void watch(PJRT_Event* event, std::string_view what, const Patience& patience,
             std::shared_ptr<const void> keep) const;
  [[noreturn]] void fail(PJRT_Error* error, std::string_view what) const;
  void destroy(PJRT_Error* error) const;
  template <class Function>
  void check_function() const;

  const PJRT_Api* table_;
  std::string file_;
};

/// What a plugin gave: `Function` gives it back, whose argument `kMember` it is.
template <class Function, auto kMember>
class Owned {
 public:
  using Handle =
      std::remove_reference_t<decltype(std::declval<typename Function::Args&>().*kMember)>;

  /// Lifetime: `api` must outlive it.
  Owned(const Api& api, Handle handle) : api_(api), handle_(handle) {}
  ~Owned() {
    auto arguments = arguments_of<Function>();
    arguments.*kMember = handle_;
    api_.release<Function>(arguments);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Handle get() const { return handle_; }

 private:
  const Api& api_;
  Handle handle_;
};

using OwnedEvent = Owned<functions::Event_Destroy, &PJRT_Event_Destroy_Args::event>;
using OwnedClient = Owned<functions::Client_Destroy, &PJRT_Client_Destroy_Args::client>;
using OwnedBuffer = Owned<functions::Buffer_Destroy, &PJRT_Buffer_Destroy_Args::buffer>;
using OwnedExecutable =
    Owned<functions::Executable_Destroy, &PJRT_Executable_Destroy_Args::executable>;
using OwnedLoadedExecutable =
    Owned<functions::LoadedExecutable_Destroy, &PJRT_LoadedExecutable_Destroy_Args::executable>;
using OwnedTopology =
    Owned<functions::TopologyDescription_Destroy, &PJRT_TopologyDescription_Destroy_Args::topology>;

}  // namespace millrace::device::pjrt
