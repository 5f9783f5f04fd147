#include "tools/short_waits.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace millrace::tools {
namespace {

constexpr const char* kSelf = "/proc/self/exe";
constexpr const char* kSpinCount = "GOMP_SPINCOUNT";

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// Not so under a loader that is run by hand, or through a link of another name.
bool may_restart_as(const std::filesystem::path& name) {
  std::error_code unreadable;
  return std::filesystem::read_symlink(kSelf, unreadable).filename() == name.filename();
}

}  // namespace

void restart_with_short_waits(char** argv) {
  if (is_set(kSpinCount) || is_set("OMP_WAIT_POLICY") || !may_restart_as(argv[0])) return;
  ::setenv(kSpinCount, "1000", 1);
  ::execv(kSelf, argv);
  // A system that refuses has the program go on as it is.
}

}  // namespace millrace::tools
