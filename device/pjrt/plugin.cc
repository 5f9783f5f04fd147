#include "device/pjrt/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "device/pjrt/detail/api.h"
#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::device::pjrt {
namespace {

using GetTable = const PJRT_Api* (*)();

const PJRT_Api* open_table(const std::string& file) {
  std::error_code fault;
  if (!std::filesystem::exists(file, fault))
    throw Error(ErrorCode::kNotFound, fmt::format("{}: there is no such plugin", printable(file)));
  // A name without a slash would be looked for among the system's libraries.
  void* const library = ::dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: not a library that can be loaded: {}",
                                                         printable(file), printable(::dlerror())));
  const auto get = reinterpret_cast<GetTable>(::dlsym(library, "GetPjrtApi"));
  const PJRT_Api* const table = get == nullptr ? nullptr : get();
  if (table == nullptr)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: no PJRT plugin: it has no GetPjrtApi", printable(file)));
  return table;
}

}  // namespace

bool is_built() { return true; }

Plugin::Plugin(const std::string& file)
    : file_(file), api_(std::make_shared<const Api>(open_table(file), file)) {
  version_ = api_->version();
  auto arguments = arguments_of<functions::Plugin_Initialize>();
  api_->call<functions::Plugin_Initialize>(arguments, file + ": the plugin failed to initialise");
}

}  // namespace millrace::device::pjrt
