// A plugin that connects the processes of a run, as those of GPUs do.
#pragma once

#include <pjrt_c_api.h>

/// The fakes' own.
struct PJRT_Error {
  const char* message;
  PJRT_Error_Code code;
};

namespace millrace::testing {

/// Makes `table`, that of XLA's plugin for the CPU, one whose every process has
/// FAKE_PLUGIN_DEVICES devices (1), and whose programs run on those of all processes. Each process
/// has them all for itself: it runs all replicas, with what the key-value store says that the
/// others' were given.
void connect_processes(PJRT_Api& table);

}  // namespace millrace::testing
