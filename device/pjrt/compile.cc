#include "device/pjrt/detail/compile.h"

#include <algorithm>
#include <cstdint>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::device::pjrt {
namespace {

// A field of a protocol buffer: a number, or the bytes of a message.
void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}
void put_number(std::string& to, unsigned field, std::uint64_t value) {
  put_varint(to, field << 3U);
  put_varint(to, value);
}
void put_message(std::string& to, unsigned field, const std::string& message) {
  put_varint(to, field << 3U | 2U);
  put_varint(to, message.size());
  to += message;
}

PJRT_NamedValue without_value(const std::string& name) {
  PJRT_NamedValue setting{};
  setting.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  setting.name = name.data();
  setting.name_size = name.size();
  return setting;
}

/// Replica r on device ids[r].
std::string assignment_of(const std::vector<std::int64_t>& ids) {
  std::string computation;
  for (const std::int64_t id : ids) put_number(computation, 1, static_cast<std::uint64_t>(id));
  std::string assignment;
  put_number(assignment, 1, ids.size());
  put_number(assignment, 2, 1);
  put_message(assignment, 3, computation);
  return assignment;
}

}  // namespace

DeviceInfo device_info(const Api& api, PJRT_DeviceDescription* description) {
  auto id = arguments_of<functions::DeviceDescription_Id>();
  id.device_description = description;
  api.call<functions::DeviceDescription_Id>(id, "a device's number");
  auto kind = arguments_of<functions::DeviceDescription_Kind>();
  kind.device_description = description;
  api.call<functions::DeviceDescription_Kind>(kind, "a device's kind");
  return {.id = id.id, .kind = std::string(kind.device_kind, kind.device_kind_size)};
}

PJRT_NamedValue named(const std::string& name, const std::string& value) {
  PJRT_NamedValue setting = without_value(name);
  setting.type = PJRT_NamedValue_kString;
  setting.string_value = value.data();
  setting.value_size = value.size();
  return setting;
}

PJRT_NamedValue named(const std::string& name, std::int64_t value) {
  PJRT_NamedValue setting = without_value(name);
  setting.type = PJRT_NamedValue_kInt64;
  setting.int64_value = value;
  setting.value_size = 1;
  return setting;
}

PJRT_Program program_of(std::string_view stablehlo) {
  static constexpr std::string_view kFormat = "mlir";
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  // A plugin only reads it.
  program.code = const_cast<char*>(stablehlo.data());
  program.code_size = stablehlo.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  return program;
}

std::vector<std::int64_t> assigned(const CompileOptions& options,
                                   const std::vector<DeviceInfo>& devices) {
  if (!options.assignment.empty()) return options.assignment;
  const int replicas = options.replicas;
  if (replicas < 1 || static_cast<std::size_t>(replicas) > devices.size())
    throw Error(ErrorCode::kInvalidArgument,
                counted(static_cast<std::uint64_t>(std::max(replicas, 0)), "replica") + " on " +
                    counted(devices.size(), "device"));
  std::vector<std::int64_t> ids;
  for (int r = 0; r < replicas; ++r) ids.push_back(devices[static_cast<std::size_t>(r)].id);
  return ids;
}

std::string compile_options(const CompileOptions& options, const std::vector<DeviceInfo>& devices) {
  const std::vector<std::int64_t> ids = assigned(options, devices);
  std::string build;
  put_number(build, 4, ids.size());
  put_number(build, 5, 1);
  if (!options.portable) put_message(build, 9, assignment_of(ids));
  std::string settings;
  put_message(settings, 3, build);
  if (options.portable) put_number(settings, 4, 1);
  for (const auto& [name, value] : options.flags) {
    std::string number;
    put_number(number, 3, static_cast<std::uint64_t>(value));
    std::string flag;
    put_message(flag, 1, name);
    put_message(flag, 2, number);
    put_message(settings, 7, flag);
  }
  return settings;
}

}  // namespace millrace::device::pjrt
