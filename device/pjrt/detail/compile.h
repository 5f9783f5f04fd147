// What Client and Topology share: descriptions of devices, programs and options as plugins take
// them.
#pragma once

#include <pjrt_c_api.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/pjrt/client.h"
#include "device/pjrt/detail/api.h"

namespace millrace::device::pjrt {

/// Without its memory.
DeviceInfo device_info(const Api& api, PJRT_DeviceDescription* description);

/// A setting of a client or a topology; borrows both.
PJRT_NamedValue named(const std::string& name, const std::string& value);
PJRT_NamedValue named(const std::string& name, std::int64_t value);

/// Borrows the text.
PJRT_Program program_of(std::string_view stablehlo);

/// On which devices a program's replicas run. Throws: InvalidArgument for more replicas than
/// devices.
std::vector<std::int64_t> assigned(const CompileOptions& options,
                                   const std::vector<DeviceInfo>& devices);

/// An xla.CompileOptionsProto: one partition. Throws: as assigned().
std::string compile_options(const CompileOptions& options, const std::vector<DeviceInfo>& devices);

}  // namespace millrace::device::pjrt
