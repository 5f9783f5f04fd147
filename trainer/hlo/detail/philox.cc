#include "trainer/hlo/detail/philox.h"

#include <array>

namespace millrace::trainer::hlo {
namespace {

// As io/base/rng.cc: SplitMix64's finaliser.
Tensor mix(Tensor x) {
  Builder& builder = *x.builder;
  const auto number = [&](std::uint64_t value) { return integer(builder, value, Type::kUint64); };
  x = x + number(0x9E3779B97F4A7C15U);
  x = exclusive_or(x, shift_right(x, 30)) * number(0xBF58476D1CE4E5B9U);
  x = exclusive_or(x, shift_right(x, 27)) * number(0x94D049BB133111EBU);
  return exclusive_or(x, shift_right(x, 31));
}

Tensor low(const Tensor& x) { return convert(x, Type::kUint32); }
Tensor high(const Tensor& x) { return convert(shift_right(x, 32), Type::kUint32); }

using Counter = std::array<Tensor, 4>;

/// Philox4x32-10's block, for every place of the counters; the key has no dimensions.
Counter philox(Counter counter, Tensor key0, Tensor key1) {
  Builder& builder = *key0.builder;
  const auto product = [&](const Tensor& x, std::uint64_t factor) {
    return convert(x, Type::kUint64) * integer(builder, factor, Type::kUint64);
  };
  for (int round = 0; round < 10; ++round) {
    const Tensor a = product(counter[0], 0xD2511F53U);
    const Tensor b = product(counter[2], 0xCD9E8D57U);
    counter = {exclusive_or(exclusive_or(high(b), counter[1]), key0), low(b),
               exclusive_or(exclusive_or(high(a), counter[3]), key1), low(a)};
    key0 = key0 + integer(builder, 0x9E3779B9U, Type::kUint32);
    key1 = key1 + integer(builder, 0xBB67AE85U, Type::kUint32);
  }
  return counter;
}

}  // namespace

Tensor uniform(const RandomKey& key, const FixedKey& fixed, const Shape& shape) {
  Builder& builder = *key.seed.builder;
  const std::uint64_t purpose = static_cast<std::uint64_t>(fixed.purpose) << 32;
  const Tensor mixed =
      mix(exclusive_or(mix(key.seed), key.epoch + integer(builder, purpose, Type::kUint64)));
  const std::int64_t samples = shape[0];
  const std::int64_t blocks = (shape[1] + 3) / 4;
  const Shape places = {samples, blocks};
  const Tensor index = key.index + iota(builder, Type::kUint64, {samples}, 0) * key.stride;
  const auto of_sample = [&](const Tensor& x) { return broadcast(x, places, {0}); };
  const Counter words =
      philox({iota(builder, Type::kUint32, places, 1),
              broadcast(integer(builder, fixed.stream, Type::kUint32), places, {}),
              of_sample(low(index)), of_sample(high(index))},
             low(mixed), high(mixed));
  std::vector<Tensor> parts;
  for (const Tensor& word : words) parts.push_back(reshape(word, {samples, blocks, 1}));
  const Tensor drawn = slice(reshape(concatenate(parts, 2), {samples, 4 * blocks}), 1, 0, shape[1]);
  return convert(shift_right(drawn, 8), Type::kFloat32) * 0x1.0p-24;
}

}  // namespace millrace::trainer::hlo
