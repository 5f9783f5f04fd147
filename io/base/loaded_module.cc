#include "io/base/loaded_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <string_view>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

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

/// Beside this code, or where both were installed; else the name alone, which is looked for as a
/// program's libraries are.
std::string module_path(const std::string& file) {
  std::error_code ignored;
  const fs::path folder = own_folder();
  for (const fs::path& place : {folder / MILLRACE_LIBRARIES_FROM_BIN / file, folder / file})
    if (fs::exists(place, ignored)) return place.string();
  return file;
}

}  // namespace

void* module_entry(const LoadedModule& module) {
  const std::string path = module_path(module.file);
  void* loaded = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* entry = loaded == nullptr ? nullptr : ::dlsym(loaded, module.entry.c_str());
  if (entry != nullptr) return entry;
  const char* why = ::dlerror();
  if (why != nullptr && std::string_view(why).starts_with(module.file + ": cannot open"))
    throw Error(ErrorCode::kUnsupported,
                module.file +
                    " is not found: it is to be beside the program, or where its libraries are "
                    "looked for (an rpath, LD_LIBRARY_PATH)");
  throw Error(ErrorCode::kUnsupported, module.libraries + " cannot be loaded (" +
                                           printable(why == nullptr ? "no such entry" : why, 300) +
                                           "): " + module.remedy);
}

}  // namespace millrace
