// Permutation: a keyed permutation of the numbers below n, one number at a time and without memory.
//
// A Feistel network over the smallest even number of bits that holds n - 1; numbers at or above n
// are sent through it again (cycle walking), so every number below n comes out once.
//
//   const Permutation order(num_samples, {.seed = 7, .epoch = 2});
//   for (std::uint64_t slot = 0; slot < order.size(); ++slot) read(order.at(slot));
//
// Threads: a value; at() from any thread. Source: Black and Rogaway, "Ciphers with Arbitrary Finite
// Domains" (CT-RSA 2002).
#pragma once

#include <array>
#include <cstdint>

namespace millrace::wds {

struct PermutationKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint64_t pass = 0;  ///< of an epoch that is longer than the set
};

class Permutation {
 public:
  Permutation(std::uint64_t size, const PermutationKey& key);

  std::uint64_t size() const { return size_; }
  /// Requires: index < size().
  std::uint64_t at(std::uint64_t index) const;

 private:
  static constexpr std::size_t kRounds = 6;
  std::uint64_t mix(std::uint64_t value) const;

  std::uint64_t size_;
  unsigned half_bits_ = 1;
  std::array<std::array<std::uint32_t, 2>, kRounds> keys_{};
};

}  // namespace millrace::wds
