// Keyed randomness: every random choice is a pure function of what it is for.
//
// A KeyedRng is Philox4x32-10 whose key and counter are derived from (seed, epoch, stream, index,
// purpose). There is no shared generator and no hidden state, so every choice is the same at any
// thread count and after any restart.
//
//   KeyedRng rng({.seed = 7, .epoch = 2, .stream = 3, .index = 41, .purpose = kFlip});
//   const bool flip = rng.uniform() < 0.5F;
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC'11).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

namespace millrace {

/// What a choice is for, so that two choices about one sample use independent numbers. A purpose is
/// declared where it is used, by purpose_of("a name"); the earliest are small numbers, each in one
/// place (tests/layers/check_purposes.py). The values are part of what a seed means: never change
/// one.
enum class Purpose : std::uint32_t { kSynthetic = 9, kUser = 1000 };

/// FNV-1a of the name, apart from the small numbers.
constexpr Purpose purpose_of(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char letter : name) hash = (hash ^ static_cast<std::uint8_t>(letter)) * 16777619U;
  return Purpose{hash | 0x80000000U};
}

struct RngKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint32_t stream = 0;
  std::uint64_t index = 0;
  Purpose purpose = Purpose::kUser;
};

/// A UniformRandomBitGenerator, cheap to construct: no warm-up. Threads: one at a time.
class KeyedRng {
 public:
  using result_type = std::uint32_t;

  explicit KeyedRng(const RngKey& key);

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  /// The next 32 random bits.
  result_type operator()();
  /// Uniform in [0, 1), 24 bits.
  float uniform() { return static_cast<float>((*this)() >> 8) * 0x1.0p-24F; }
  /// Uniform in [0, bound), without bias. Requires: bound > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Normal with mean 0 and standard deviation 1 (Box-Muller).
  float normal();

 private:
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

/// Fisher-Yates shuffle, in place.
template <typename T>
void shuffle(std::span<T> items, KeyedRng& rng) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[rng.below(i)]);
}

/// Philox4x32-10's block function, as in the paper; public for its known-answer test.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

}  // namespace millrace
