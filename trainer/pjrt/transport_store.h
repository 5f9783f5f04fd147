// TransportStore: a KeyValueStore over a run's Transport. Process 0 keeps what was put; a thread
// there answers each of the others.
//
//   const auto store = make_transport_store(processes.transport(), process, processes);
//   pjrt::Client client(plugin, {.network = {process, processes, store}});
//
// Calls throw as Transport::exchange(): Cancelled, with the reason, once the run was aborted.
//
// Threads: any.
#pragma once

#include <memory>

#include "device/pjrt/key_value_store.h"
#include "trainer/transport.h"

namespace millrace::trainer {

/// Requires: all processes make one, or none. Lifetime: `transport` is borrowed; all processes let
/// go of theirs, process 0 waits for the others, or the run is aborted.
std::shared_ptr<device::pjrt::KeyValueStore> make_transport_store(Transport& transport, int process,
                                                                  int processes);

}  // namespace millrace::trainer
