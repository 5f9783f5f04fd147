#include "wds/detail/python_random.h"

#include <algorithm>
#include <bit>

#include "io/base/check.h"

namespace millrace::wds::detail {
namespace {

constexpr std::size_t kShift = 397;

std::uint32_t spread(std::uint32_t word) { return word ^ (word >> 30); }

}  // namespace

PythonRandom::PythonRandom(std::uint64_t seed) {
  const std::array<std::uint32_t, 2> words = {static_cast<std::uint32_t>(seed),
                                              static_cast<std::uint32_t>(seed >> 32)};
  init_by_array(std::span(words).first(words[1] == 0 ? 1 : 2));
}

void PythonRandom::init(std::uint32_t seed) {
  state_[0] = seed;
  for (std::size_t i = 1; i < kWords; ++i) {
    state_[i] = 1812433253U * spread(state_[i - 1]) + static_cast<std::uint32_t>(i);
  }
}

void PythonRandom::init_by_array(std::span<const std::uint32_t> key) {
  init(19650218U);
  std::size_t i = 1;
  const auto step = [this, &i] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (std::size_t k = 0; k < std::max(kWords, key.size()); ++k) {
    const std::size_t j = k % key.size();
    state_[i] =
        (state_[i] ^ (spread(state_[i - 1]) * 1664525U)) + key[j] + static_cast<std::uint32_t>(j);
    step();
  }
  for (std::size_t k = 1; k < kWords; ++k) {
    state_[i] = (state_[i] ^ (spread(state_[i - 1]) * 1566083941U)) - static_cast<std::uint32_t>(i);
    step();
  }
  state_[0] = 0x80000000U;
}

void PythonRandom::regenerate() {
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint32_t word = (state_[i] & 0x80000000U) | (state_[(i + 1) % kWords] & 0x7FFFFFFFU);
    state_[i] = state_[(i + kShift) % kWords] ^ (word >> 1) ^ ((word & 1U) * 0x9908B0DFU);
  }
  used_ = 0;
}

std::uint32_t PythonRandom::next() {
  if (used_ == kWords) regenerate();
  std::uint32_t word = state_[used_++];
  word ^= word >> 11;
  word ^= (word << 7) & 0x9D2C5680U;
  word ^= (word << 15) & 0xEFC60000U;
  return word ^ (word >> 18);
}

std::uint64_t PythonRandom::getrandbits(int bits) {
  if (bits <= 32) return next() >> (32 - bits);
  const std::uint64_t low = next();
  return low | (static_cast<std::uint64_t>(next() >> (64 - bits)) << 32);
}

std::uint64_t PythonRandom::below(std::uint64_t bound) {
  MILLRACE_DCHECK(bound > 0, "nothing lies below 0");
  const int bits = static_cast<int>(std::bit_width(bound));
  std::uint64_t drawn = getrandbits(bits);
  while (drawn >= bound) drawn = getrandbits(bits);
  return drawn;
}

}  // namespace millrace::wds::detail
