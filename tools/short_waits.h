// What OpenMP is told before it starts.
#pragma once

namespace millrace::tools {

/// Threads that wait for each other are to sleep soon. libgomp has them spin for a millisecond and
/// more, which costs nothing where every thread has a core to itself; where they share cores, the
/// one that is waited for cannot run meanwhile, and a step takes many times as long.
///
/// libgomp reads its settings when it is loaded, before main(): the program starts anew with them,
/// once, as the same process. Whoever has set GOMP_SPINCOUNT or OMP_WAIT_POLICY is left alone.
void restart_with_short_waits(char** argv);

}  // namespace millrace::tools
