#include "wds/row_table.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::wds {
namespace {

#ifdef MILLRACE_ARROW_VERSION
namespace fs = std::filesystem;

constexpr const char* kModule = "libmillrace_arrow.so";

/// Of the program, or the library, that this code is in.
fs::path own_folder() {
  static const char here = 0;
  Dl_info info{};
  if (::dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  const fs::path self = fs::canonical(info.dli_fname, ignored);
  // A program's own name may be relative to a folder that it has left.
  return (self.empty() ? fs::read_symlink("/proc/self/exe", ignored) : self).parent_path();
}

/// Beside this code, or where both were installed.
std::string module_path() {
  std::error_code ignored;
  const fs::path folder = own_folder();
  const fs::path installed = folder / MILLRACE_LIBRARIES_FROM_BIN / kModule;
  return (fs::exists(installed, ignored) ? installed : folder / kModule).string();
}

ArrowModuleEntry* module_entry() {
  const std::string path = module_path();
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // until the program ends
  void* entry = module == nullptr ? nullptr : ::dlsym(module, kArrowModuleEntry);
  if (entry == nullptr)
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("Apache Arrow {} cannot be loaded ({}): pip install pyarrow=={}",
                    MILLRACE_ARROW_VERSION, printable(::dlerror(), 300), MILLRACE_ARROW_VERSION));
  return reinterpret_cast<ArrowModuleEntry*>(entry);
}

std::unique_ptr<RowTable> open_table(std::shared_ptr<const RowRanges> ranges,
                                     const std::string& path) {
  static ArrowModuleEntry* const entry = module_entry();
  return std::unique_ptr<RowTable>(entry(std::move(ranges), path));
}
#else
std::unique_ptr<RowTable> open_table(const std::shared_ptr<const RowRanges>& /*ranges*/,
                                     const std::string& /*path*/) {
  throw Error(ErrorCode::kUnsupported,
              "this build has no Apache Arrow, which reads such files: install it (pip install "
              "pyarrow, or libarrow-dev and libparquet-dev) and build again");
}
#endif

}  // namespace

std::unique_ptr<RowTable> open_parquet_table(std::shared_ptr<const RowRanges> ranges) {
  return open_table(std::move(ranges), "");
}

std::unique_ptr<RowTable> open_arrow_stream(const std::string& path) {
  return open_table(nullptr, path);
}

}  // namespace millrace::wds
