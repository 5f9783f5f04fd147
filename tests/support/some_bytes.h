// Bytes of a test's object: others at each place, and with each seed, so that a piece that is
// missing, or twice there, is noticed.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <string>

namespace millrace::testing {

std::string some_bytes(std::size_t size, unsigned seed = 1);

}  // namespace millrace::testing
