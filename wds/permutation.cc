#include "wds/permutation.h"

#include <bit>
#include <utility>

#include "io/base/check.h"
#include "io/base/rng.h"

namespace millrace::wds {
namespace {

constexpr Purpose kPermutation{10};

}  // namespace

Permutation::Permutation(std::uint64_t size, const PermutationKey& key) : size_(size) {
  const auto bits = static_cast<unsigned>(std::bit_width(size > 0 ? size - 1 : 0));
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
  KeyedRng rng({.seed = key.seed, .epoch = key.epoch, .index = key.pass, .purpose = kPermutation});
  for (auto& round : keys_) round = {rng(), rng()};
}

std::uint64_t Permutation::at(std::uint64_t index) const {
  MILLRACE_DCHECK(index < size_, "an index is below the size");
  do index = mix(index);
  while (index >= size_);
  return index;
}

std::uint64_t Permutation::mix(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (const auto& key : keys_) {
    const std::uint64_t mixed = philox4x32({static_cast<std::uint32_t>(right), 0, 0, 0}, key)[0];
    left = std::exchange(right, (left ^ mixed) & mask);
  }
  return left << half_bits_ | right;
}

}  // namespace millrace::wds
