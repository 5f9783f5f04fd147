// What each start of the program waits for longest: when libhwy is loaded it measures the
// resolution of its timer, 4 to 5 ms of the processor's time, for nanobenchmarks that the program
// has none of. A program's definition comes before a library's, so this one answers at once.
#include <cstdint>

namespace hwy::platform {

// Declared by <hwy/nanobenchmark.h> or <hwy/timer.h>, by Highway's version.
std::uint64_t TimerResolution();
std::uint64_t TimerResolution() { return 1; }

}  // namespace hwy::platform
