#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "trainer/ops/detail/chunks.h"
#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/primitives.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer/ops/kernels_elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "trainer/ops/detail/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {
namespace {

// Most counts are multiples of 8, of blocked channels or padded chunks; the rest is done one by
// one.
using Wide = hn::CappedTag<float, 16>;
using One = hn::CappedTag<float, 1>;

template <typename T>
struct Sum {
  const T* a;
  const T* b;
  template <class D>
  HWY_INLINE hn::Vec<D> at(D d, std::size_t i) const {
    const auto value = load_values(d, a + i);
    return b == nullptr ? value : hn::Add(value, load_values(d, b + i));
  }
};

template <class D, typename T>
HWY_INLINE std::size_t add_some(D d, std::size_t begin, std::size_t end, const AddArguments& args) {
  const Sum<T> sum{static_cast<const T*>(args.a), static_cast<const T*>(args.b)};
  const std::size_t lanes = hn::Lanes(d);
  const auto floor = hn::Set(d, args.relu ? 0.0F : -hwy::HighestValue<float>());
  for (; begin + lanes <= end; begin += lanes) {
    const auto value = sum.at(d, begin);
    store_values(args.relu ? hn::Max(value, floor) : value, d, static_cast<T*>(args.out) + begin);
  }
  return begin;
}

template <class D, typename T>
HWY_INLINE std::size_t mask_some(D d, std::size_t begin, std::size_t end,
                                 const MaskArguments& args) {
  const Sum<T> sum{static_cast<const T*>(args.a), static_cast<const T*>(args.b)};
  const T* y = static_cast<const T*>(args.y);
  const std::size_t lanes = hn::Lanes(d);
  for (; begin + lanes <= end; begin += lanes) {
    auto value = sum.at(d, begin);
    if (y != nullptr) {
      value = hn::IfThenElseZero(hn::Gt(load_values(d, y + begin), hn::Zero(d)), value);
    }
    store_values(value, d, static_cast<T*>(args.out) + begin);
  }
  return begin;
}

template <class D, typename T>
HWY_INLINE std::size_t keep_in(D d, std::size_t begin, std::size_t end, const KeepArguments& args) {
  const hn::Rebind<std::uint8_t, D> bytes;
  const hn::Rebind<std::int32_t, D> words;
  const std::size_t lanes = hn::Lanes(d);
  const auto scale = hn::Set(d, args.scale);
  for (; begin + lanes <= end; begin += lanes) {
    const auto keep = hn::PromoteTo(words, hn::LoadU(bytes, args.keep + begin));
    const auto x = load_values(d, static_cast<const T*>(args.x) + begin);
    store_values(hn::Mul(x, hn::Mul(hn::ConvertTo(d, keep), scale)), d,
                 static_cast<T*>(args.out) + begin);
  }
  return begin;
}

// Any NaN stays one: whoever sent an image may have set the bits that rounding would carry from.
template <class D>
HWY_INLINE std::size_t round_in(D d, std::size_t begin, std::size_t end, float* values) {
  const std::size_t lanes = hn::Lanes(d);
  for (; begin + lanes <= end; begin += lanes) {
    const auto value = hn::LoadU(d, values + begin);
    const auto nearest = hn::IfThenElse(hn::IsNaN(value), hn::NaN(d), rounded(value, d));
    hn::StoreU(nearest, d, values + begin);
  }
  return begin;
}

template <class D>
HWY_INLINE std::size_t widen_in(D d, std::size_t begin, std::size_t end, const std::uint16_t* from,
                                float* to) {
  const std::size_t lanes = hn::Lanes(d);
  for (; begin + lanes <= end; begin += lanes) {
    hn::StoreU(load_values(d, from + begin), d, to + begin);
  }
  return begin;
}

template <typename T>
void keep_range(std::size_t begin, std::size_t end, const KeepArguments& args) {
  keep_in<One, T>(One(), keep_in<Wide, T>(Wide(), begin, end, args), end, args);
}

template <typename T>
void add_range(std::size_t begin, std::size_t end, const AddArguments& args) {
  add_some<One, T>(One(), add_some<Wide, T>(Wide(), begin, end, args), end, args);
}

template <typename T>
void mask_range(std::size_t begin, std::size_t end, const MaskArguments& args) {
  mask_some<One, T>(One(), mask_some<Wide, T>(Wide(), begin, end, args), end, args);
}

void AddRange(Storage storage, std::size_t begin, std::size_t end, const AddArguments& args) {
  with_type(storage, [&]<typename T>() HWY_ATTR { add_range<T>(begin, end, args); });
}

void KeepRange(Storage storage, std::size_t begin, std::size_t end, const KeepArguments& args) {
  with_type(storage, [&]<typename T>() HWY_ATTR { keep_range<T>(begin, end, args); });
}

void MaskRange(Storage storage, std::size_t begin, std::size_t end, const MaskArguments& args) {
  with_type(storage, [&]<typename T>() HWY_ATTR { mask_range<T>(begin, end, args); });
}

void RoundRange(std::size_t begin, std::size_t end, float* values) {
  round_in(One(), round_in(Wide(), begin, end, values), end, values);
}

void WidenRange(std::size_t begin, std::size_t end, const std::uint16_t* from, float* to) {
  widen_in(One(), widen_in(Wide(), begin, end, from, to), end, from, to);
}

}  // namespace
}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::trainer::ops {
namespace {

HWY_EXPORT(AddRange);
HWY_EXPORT(KeepRange);
HWY_EXPORT(MaskRange);
HWY_EXPORT(RoundRange);
HWY_EXPORT(WidenRange);

// Calls draw(rng, flags) for each sample, with its own generator.
template <typename Draw>
void for_each_sample(const nn::BatchKey& key, std::int64_t samples, std::span<std::uint8_t> keep,
                     const Draw& draw) {
  const std::size_t each = keep.size() / static_cast<std::size_t>(samples);
#pragma omp parallel for schedule(static) if (samples > 1)
  for (std::int64_t i = 0; i < samples; ++i) {
    RngKey own = key.first;
    own.index += static_cast<std::uint64_t>(i) * key.stride;
    KeyedRng rng(own);
    draw(rng, keep.subspan(static_cast<std::size_t>(i) * each, each));
  }
}

}  // namespace

Storage storage_of(const Context& context) {
  if (context.round_to_bfloat16) return Storage::kRounded;
  return context.type == DataType::bf16 ? Storage::kBFloat16 : Storage::kFloat32;
}

std::size_t padded_values(const dnnl::memory& memory) {
  const std::size_t value_bytes = type_of(memory.get_desc()) == DataType::bf16 ? 2 : 4;
  return memory.get_desc().get_size() / value_bytes;
}

void add(Storage storage, std::size_t count, const AddArguments& arguments) {
  in_chunks(count, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(AddRange)(storage, begin, end, arguments);
  });
}

void add_masked(Storage storage, std::size_t count, const MaskArguments& arguments) {
  in_chunks(count, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(MaskRange)(storage, begin, end, arguments);
  });
}

void keep_some(Storage storage, std::size_t count, const KeepArguments& arguments) {
  in_chunks(count, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(KeepRange)(storage, begin, end, arguments);
  });
}

void draw_keep(const nn::BatchKey& key, float probability, std::int64_t samples,
               std::span<std::uint8_t> keep) {
  for_each_sample(key, samples, keep, [probability](KeyedRng& rng, std::span<std::uint8_t> own) {
    for (std::uint8_t& one : own) one = rng.uniform() < probability ? 0 : 1;
  });
}

void draw_keep_samples(const nn::BatchKey& key, float probability, std::int64_t samples,
                       std::span<std::uint8_t> keep) {
  for_each_sample(key, samples, keep, [probability](KeyedRng& rng, std::span<std::uint8_t> own) {
    std::ranges::fill(own, rng.uniform() < probability ? std::uint8_t{0} : std::uint8_t{1});
  });
}

void round_to_bfloat16(const dnnl::memory& memory) {
  auto* values = static_cast<float*>(memory.get_data_handle());
  in_chunks(padded_values(memory), [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(RoundRange)(begin, end, values);
  });
}

void widen_bfloat16(const dnnl::memory& from, const dnnl::memory& to) {
  const auto* bits = static_cast<const std::uint16_t*>(from.get_data_handle());
  auto* values = static_cast<float*>(to.get_data_handle());
  in_chunks(padded_values(to), [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(WidenRange)(begin, end, bits, values);
  });
}

void copy_rows(const RowCopies& copies) {
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < copies.rows; ++row) {
    std::memcpy(copies.to + row * copies.to_stride, copies.from + row * copies.from_stride,
                static_cast<std::size_t>(copies.bytes));
  }
}

}  // namespace millrace::trainer::ops
#endif  // HWY_ONCE
