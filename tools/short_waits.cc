#include "tools/short_waits.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace millrace::tools {
namespace {

constexpr const char* kSpinCount = "GOMP_SPINCOUNT";

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// The path of the program's own file: with /proc/self/exe itself, `ps` would show the process as
// "exe". Empty if the loader was run explicitly, or through a link of another name.
std::filesystem::path own_file(const std::filesystem::path& name) {
  std::error_code unreadable;
  std::filesystem::path file = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  return file.filename() == name.filename() ? file : std::filesystem::path();
}

}  // namespace

void restart_with_short_waits(char** argv) {
  if (is_set(kSpinCount) || is_set("OMP_WAIT_POLICY")) return;
  const std::filesystem::path file = own_file(argv[0]);
  if (file.empty()) return;
  ::setenv(kSpinCount, "1000", 1);
  ::execv(file.c_str(), argv);
  // If exec fails, the program continues as it is.
}

}  // namespace millrace::tools
