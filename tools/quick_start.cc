// What other libraries do when they are loaded and this program never needs: a part of the time in
// which `millrace --help` answers.
#include <cstdint>

namespace hwy::platform {

// Highway's library times the processor's clock for its benchmarks, 4 of the 35 ms that a start
// takes. It finds this function before its own, as the loader looks in the program first; a
// version that has none of this name does not notice.
std::uint64_t TimerResolution();
std::uint64_t TimerResolution() { return 1; }

}  // namespace hwy::platform
