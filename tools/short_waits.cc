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

// The program's own file, by its path: /proc/self/exe itself would make `ps` call the process
// "exe". Empty under a loader that is run by hand, and through a link of another name.
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
  // A system that refuses has the program go on as it is.
}

}  // namespace millrace::tools
