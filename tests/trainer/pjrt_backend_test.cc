// The backend of compiled programs, on XLA's plugin for the CPU: in the suite of all backends.
// Skipped where the plugin is not installed (tools/bootstrap.sh --accelerators).
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/trainer/backend_conformance.h"
#include "trainer/pjrt/backend.h"

namespace millrace::trainer {
namespace {

#ifdef MILLRACE_CPU_PLUGIN
using device::pjrt::Client;

/// A plugin's devices are started once: by their number.
std::shared_ptr<const Client> client_of(int devices) {
  static std::map<int, std::shared_ptr<const Client>> clients;
  auto& client = clients[devices];
  if (client == nullptr) {
    const device::pjrt::Plugin plugin(MILLRACE_CPU_PLUGIN);
    client =
        std::make_shared<const Client>(plugin, device::pjrt::ClientOptions{.cpu_devices = devices});
  }
  return client;
}

BackendCase with_devices(int devices) {
  return {"Devices" + std::to_string(devices), [devices] {
            // What takes the time here is XLA's compiling.
            return make_pjrt_backend(client_of(devices),
                                     {.flags = {{"xla_backend_optimization_level", 0}}});
          }};
}

/// With MILLRACE_LONG_TESTS also on eight.
std::vector<BackendCase> cases() {
  std::vector<BackendCase> all = {with_devices(2)};
  if (std::getenv("MILLRACE_LONG_TESTS") != nullptr) all.push_back(with_devices(8));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Pjrt, BackendConformance, ::testing::ValuesIn(cases()), backend_case_name);
#else
TEST(PjrtBackend, NeedsAPlugin) { GTEST_SKIP() << "no plugin for the CPU is installed"; }
#endif

}  // namespace
}  // namespace millrace::trainer
