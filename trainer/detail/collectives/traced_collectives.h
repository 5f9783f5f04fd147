// Collectives whose calls are spans of a trace, with the bytes of their values.
//
// Threads: as Collectives.
#pragma once

#include <memory>

#include "io/base/trace.h"
#include "trainer/collectives.h"

namespace millrace::trainer::detail {

/// `group`, each of whose collectives is recorded on `track`. Requires: it has a tracer.
std::unique_ptr<Collectives> trace_collectives(std::unique_ptr<Collectives> group,
                                               const TraceTrack& track);

}  // namespace millrace::trainer::detail
