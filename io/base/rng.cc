#include "io/base/rng.h"

#include <cmath>
#include <numbers>

#include "io/base/check.h"

namespace millrace {
namespace {

// SplitMix64's finaliser: spreads neighbouring seeds over the whole key space.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ULL * counter[0];
    const std::uint64_t b = 0xCD9E8D57ULL * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

KeyedRng::KeyedRng(const RngKey& key)
    : counter_{0, key.stream, low(key.index), high(key.index)}, key_{} {
  const std::uint64_t purpose = static_cast<std::uint64_t>(key.purpose) << 32;
  const std::uint64_t mixed = mix(mix(key.seed) ^ (purpose | key.epoch));
  key_ = {low(mixed), high(mixed)};
}

KeyedRng::result_type KeyedRng::operator()() {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

std::uint64_t KeyedRng::below(std::uint64_t bound) {
  MILLRACE_DCHECK(bound > 0, "nothing lies below 0");
  const std::uint64_t limit = (~std::uint64_t{0} / bound) * bound;
  for (;;) {
    const std::uint64_t bits = (static_cast<std::uint64_t>((*this)()) << 32) | (*this)();
    if (bits < limit) return bits % bound;
  }
}

float KeyedRng::normal() {
  const float u = 1.0F - uniform();  // (0, 1]: its logarithm is finite
  const float angle = 2.0F * std::numbers::pi_v<float> * uniform();
  return std::sqrt(-2.0F * std::log(u)) * std::cos(angle);
}

}  // namespace millrace
