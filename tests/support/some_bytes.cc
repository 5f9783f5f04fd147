#include "tests/support/some_bytes.h"

#include <random>

namespace millrace::testing {

std::string some_bytes(std::size_t size, unsigned seed) {
  std::minstd_rand random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() >> 7U);
  return bytes;
}

}  // namespace millrace::testing
