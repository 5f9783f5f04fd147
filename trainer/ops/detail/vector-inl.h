// Loads and stores of float32, bf16 and rounded values as float32 vectors. Included once for every
// target that Highway compiles; see its foreach_target.h.
#if defined(MILLRACE_TRAINER_OPS_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_TRAINER_OPS_VECTOR_INL_H_
#undef MILLRACE_TRAINER_OPS_VECTOR_INL_H_
#else
#define MILLRACE_TRAINER_OPS_VECTOR_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "trainer/ops/detail/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The blocks of 16 channels, and bf16 in memory, are for processors with AVX-512.
constexpr bool kWideBlocks = HWY_TARGET <= HWY_AVX3;

// Calls f.operator()<value type>() for what `storage` means.
template <class F>
HWY_INLINE void with_type(Storage storage, const F& f) {
  if (storage == Storage::kRounded) return f.template operator()<RoundedFloat>();
  if (storage == Storage::kFloat32) return f.template operator()<float>();
  if constexpr (kWideBlocks) f.template operator()<std::uint16_t>();
}

template <class D>
HWY_INLINE hn::Vec<D> load_values(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_values(D d, const std::uint16_t* from) {
  const hn::Rebind<std::uint16_t, D> half;
  const hn::Rebind<std::uint32_t, D> word;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(word, hn::LoadU(half, from))));
}

template <class D>
HWY_INLINE void store_values(hn::Vec<D> values, D d, float* to) {
  hn::StoreU(values, d, to);
}

// The nearest bf16's bits in each lane's low half; ties go to the even one. The processor's own
// NaNs stay NaN: their low bits are clear, so that nothing carries.
template <class D>
HWY_INLINE auto round_bits(hn::Vec<D> values, D) {
  const hn::RebindToUnsigned<D> word;
  const auto bits = hn::BitCast(word, values);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(word, 1));
  return hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(word, 0x7FFF))));
}

template <class D>
HWY_INLINE hn::Vec<D> rounded(hn::Vec<D> values, D d) {
  return hn::BitCast(d, hn::ShiftLeft<16>(round_bits(values, d)));
}

template <class D>
HWY_INLINE hn::Vec<D> load_values(D d, const RoundedFloat* from) {
  return rounded(hn::LoadU(d, &from->value), d);
}

template <class D>
HWY_INLINE void store_values(hn::Vec<D> values, D d, RoundedFloat* to) {
  hn::StoreU(rounded(values, d), d, &to->value);
}

template <class D>
HWY_INLINE void store_values(hn::Vec<D> values, D d, std::uint16_t* to) {
  const hn::RebindToSigned<D> word;
  const hn::Rebind<std::uint16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(word, round_bits(values, d))), half, to);
}

// Calls f(lane, vector) for the channels of a block in whole vectors, and for the rest, which only
// channels-last images have, one by one.
template <class F>
HWY_INLINE void for_lanes(std::int64_t block, const F& f) {
  const hn::CappedTag<float, 8> d;  // divides both sizes of blocks
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t lane = 0;
  for (; lane + step <= block; lane += step) f(lane, d);
  for (; lane < block; ++lane) f(lane, hn::CappedTag<float, 1>());
}

using RowVector = hn::CappedTag<float, 8>;  // divides both sizes of blocks

// Calls f(channel, offset in the row, vector): whole vectors, then the rest one by one.
template <class F>
HWY_INLINE void for_channels(const ImageShape& shape, const F& f) {
  const RowVector d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t b = 0; b < shape.blocks; ++b) {
    const std::int64_t first = b * shape.block;
    const std::int64_t offset = first * shape.pixels;
    const std::int64_t count = std::min(shape.block, shape.channels - first);
    std::int64_t lane = 0;
    for (; lane + step <= count; lane += step) f(first + lane, offset + lane, d);
    for (; lane < count; ++lane) f(first + lane, offset + lane, hn::CappedTag<float, 1>());
  }
}

struct RowSum {
  hn::Vec<RowVector> wide;
  float rest = 0;

  // Not the implicit one, which would be compiled for the baseline.
  HWY_INLINE RowSum() : wide(hn::Zero(RowVector())) {}
  template <class D>
  HWY_INLINE void add(D, hn::Vec<D> value) {
    if constexpr (std::is_same_v<D, RowVector>) {
      wide = hn::Add(wide, value);
    } else {
      rest += hn::GetLane(value);
    }
  }
  HWY_INLINE float total() const { return hn::GetLane(hn::SumOfLanes(RowVector(), wide)) + rest; }
};

}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the toggle
