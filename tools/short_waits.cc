#include "tools/short_waits.h"

#include <unistd.h>

#include <cstdlib>

namespace millrace::tools {
namespace {

constexpr const char* kSpinCount = "GOMP_SPINCOUNT";

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

void restart_with_short_waits(char** argv) {
  if (is_set(kSpinCount) || is_set("OMP_WAIT_POLICY")) return;
  ::setenv(kSpinCount, "1000", 1);
  ::execv("/proc/self/exe", argv);
  // Only where /proc is missing: the program goes on as it is.
}

}  // namespace millrace::tools
