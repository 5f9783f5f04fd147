// Layout: how a test's replicas are spread over processes.
#pragma once

#include <string>

namespace millrace::testing {

/// Processes, and devices of each.
struct Layout {
  int processes = 1;
  int devices = 1;
  int world() const { return processes * devices; }
};

inline std::string name_of(const Layout& layout) {
  return std::to_string(layout.processes) + " x " + std::to_string(layout.devices);
}

}  // namespace millrace::testing
