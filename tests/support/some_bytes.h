// Bytes of a test's object: others at each place, and with each seed, so that a piece that is
// missing, or twice there, is noticed.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <random>
#include <string>

namespace millrace::testing {

inline std::string some_bytes(std::size_t size, unsigned seed = 1) {
  std::minstd_rand random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() >> 7U);
  return bytes;
}

}  // namespace millrace::testing
