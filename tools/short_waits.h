// Settings of OpenMP that must be made before it starts.
#pragma once

namespace millrace::tools {

/// Makes threads that wait for each other sleep soon. By default libgomp lets them spin for a
/// millisecond or more, which costs nothing if every thread has its own core; if they share cores,
/// the thread that is waited for cannot run meanwhile, and a step takes many times as long.
///
/// libgomp reads its settings when it is loaded, before main(): so the program re-executes itself
/// once, as the same process. Does nothing if GOMP_SPINCOUNT or OMP_WAIT_POLICY is set.
void restart_with_short_waits(char** argv);

}  // namespace millrace::tools
