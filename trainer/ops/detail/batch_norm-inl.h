// Batch normalisation's vectors and sums. Included once for every target that Highway compiles; see
// its foreach_target.h.
#if defined(MILLRACE_TRAINER_OPS_BATCH_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MILLRACE_TRAINER_OPS_BATCH_NORM_INL_H_
#undef MILLRACE_TRAINER_OPS_BATCH_NORM_INL_H_
#else
#define MILLRACE_TRAINER_OPS_BATCH_NORM_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "trainer/ops/detail/batch_norm.h"
#include "trainer/ops/detail/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {

// A block's vectors: kParts of them hold the 16 or 8 channels.
template <int kBlock>
struct Vectors {
  using D = hn::CappedTag<float, kBlock>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr std::size_t kParts = kBlock / kLanes;
  using V = hn::Vec<D>;
};

template <int kBlock>
struct Constant {
  using D = typename Vectors<kBlock>::D;
  explicit Constant(const Lanes& lanes) {
    for (std::size_t k = 0; k < Vectors<kBlock>::kParts; ++k) {
      parts[k] = hn::LoadU(D(), lanes.data() + k * Vectors<kBlock>::kLanes);
    }
  }
  typename Vectors<kBlock>::V parts[Vectors<kBlock>::kParts];
};

// Two running sums per channel, in float32 for a stretch of pixels and in double across stretches.
template <int kBlock>
class PairOfSums {
 public:
  using T = Vectors<kBlock>;
  static constexpr std::size_t kWays = 4;  // independent chains hide the adders' latency

  PairOfSums() { clear(); }
  template <std::size_t kWay>
  HWY_INLINE void add(std::size_t k, typename T::V a, typename T::V b, typename T::V c) {
    first_[kWay][k] = hn::Add(first_[kWay][k], a);
    second_[kWay][k] = hn::MulAdd(b, c, second_[kWay][k]);
  }
  void flush(Sums& first, Sums& second) {
    flush_one(first_, first);
    flush_one(second_, second);
    clear();
  }

 private:
  using Grid = typename T::V[kWays][T::kParts];

  void clear() {
    for (std::size_t way = 0; way < kWays; ++way) {
      for (std::size_t k = 0; k < T::kParts; ++k) {
        first_[way][k] = second_[way][k] = hn::Zero(typename T::D());
      }
    }
  }
  static void flush_one(const Grid& grid, Sums& sums) {
    alignas(64) float lanes[T::kLanes];
    for (std::size_t k = 0; k < T::kParts; ++k) {
      const auto total = hn::Add(hn::Add(grid[0][k], grid[1][k]), hn::Add(grid[2][k], grid[3][k]));
      hn::StoreU(total, typename T::D(), lanes);
      for (std::size_t i = 0; i < T::kLanes; ++i) {
        sums[k * T::kLanes + i] += static_cast<double>(lanes[i]);
      }
    }
  }

  Grid first_;
  Grid second_;
};

// Calls step.template pixel<way>(offset, sums) for every pixel of the planes.
template <int kBlock, class Step>
HWY_INLINE void sum_planes(const Planes& planes, const Step& step, Sums& first, Sums& second) {
  constexpr std::int64_t kPixel = kBlock;
  constexpr std::int64_t kStretch = 2048 * kPixel;
  PairOfSums<kBlock> sums;
  std::int64_t pending = 0;
  for (std::int64_t n = 0; n < planes.images; ++n) {
    std::int64_t at = planes.first + n * planes.stride;
    const std::int64_t end = at + planes.values;
    for (; at + 4 * kPixel <= end; at += 4 * kPixel) {
      step.template pixel<0>(at, sums);
      step.template pixel<1>(at + kPixel, sums);
      step.template pixel<2>(at + 2 * kPixel, sums);
      step.template pixel<3>(at + 3 * kPixel, sums);
    }
    for (; at < end; at += kPixel) step.template pixel<0>(at, sums);
    pending += planes.values;
    if (pending < kStretch) continue;
    sums.flush(first, second);
    pending = 0;
  }
  sums.flush(first, second);
}

// Calls f.operator()<value type, channels of a block>().
template <class F>
void with_types(Storage storage, std::int64_t block, const F& f) {
  with_type(storage, [&]<typename T>() HWY_ATTR {
    if constexpr (kWideBlocks) {
      if (block == 16) return f.template operator()<T, 16>();
    }
    f.template operator()<T, 8>();
  });
}

}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // the toggle
