// Batch normalisation's vectors and sums. Included once for every target that Highway compiles; see
// its foreach_target.h.
//
// A pass is a step over values: step.part(i, k, ...) handles the vector of values at i, of the
// channels with the constants k. The drivers below call it for every vector of a block's planes, or
// of a chunk's rows.
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

// Before a loop over a block's parts. Those of one lane each stay a loop: unrolled, they are two
// thirds of the objects, for processors that hardly any machine has.
#undef MILLRACE_FOR_PARTS
#if HWY_TARGET == HWY_SCALAR && defined(__GNUC__) && !defined(__clang__)
#define MILLRACE_FOR_PARTS _Pragma("GCC unroll 1")
#else
#define MILLRACE_FOR_PARTS
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {

// A block's vectors: kParts of them hold the 16 or 8 channels, and so the constants.
template <int kBlock>
struct BlockVectors {
  using D = hn::CappedTag<float, kBlock>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr std::size_t kParts = kBlock / kLanes;
  using V = hn::Vec<D>;

  class Constant {
   public:
    explicit Constant(const Lanes& lanes) {
      for (std::size_t k = 0; k < kParts; ++k)
        parts_[k] = hn::LoadU(D(), lanes.data() + k * kLanes);
    }
    HWY_INLINE V part(std::size_t k) const { return parts_[k]; }

   private:
    V parts_[kParts];
  };
};

// A row's vectors, of kCap channels or fewer. Constants are read as they are needed: k is the
// channel.
template <int kCap>
struct RowVectors {
  using D = hn::CappedTag<float, kCap>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  using V = hn::Vec<D>;

  class Constant {
   public:
    explicit Constant(const float* values) : values_(values) {}
    HWY_INLINE V part(std::size_t channel) const { return hn::LoadU(D(), values_ + channel); }

   private:
    const float* values_;
  };
};

// Two running sums per channel, in float32 for a stretch of pixels and in double across stretches.
template <int kBlock>
class PairOfSums {
 public:
  using Vs = BlockVectors<kBlock>;
  static constexpr std::size_t kWays = 4;  // independent chains hide the adders' latency

  PairOfSums() { clear(); }

  template <std::size_t kWay>
  struct Part {
    PairOfSums& sums;
    std::size_t k;
    HWY_INLINE void add(typename Vs::V a, typename Vs::V b, typename Vs::V c) const {
      sums.first_[kWay][k] = hn::Add(sums.first_[kWay][k], a);
      sums.second_[kWay][k] = hn::MulAdd(b, c, sums.second_[kWay][k]);
    }
  };

  void flush(Sums& first, Sums& second) {
    flush_one(first_, first);
    flush_one(second_, second);
    clear();
  }

 private:
  using Grid = typename Vs::V[kWays][Vs::kParts];

  void clear() {
    for (std::size_t way = 0; way < kWays; ++way) {
      for (std::size_t k = 0; k < Vs::kParts; ++k) {
        first_[way][k] = second_[way][k] = hn::Zero(typename Vs::D());
      }
    }
  }
  static void flush_one(const Grid& grid, Sums& sums) {
    alignas(64) float lanes[Vs::kLanes];
    for (std::size_t k = 0; k < Vs::kParts; ++k) {
      const auto total = hn::Add(hn::Add(grid[0][k], grid[1][k]), hn::Add(grid[2][k], grid[3][k]));
      hn::StoreU(total, typename Vs::D(), lanes);
      for (std::size_t i = 0; i < Vs::kLanes; ++i) {
        sums[k * Vs::kLanes + i] += static_cast<double>(lanes[i]);
      }
    }
  }

  Grid first_;
  Grid second_;
};

template <std::size_t kWay, int kBlock, class Step>
HWY_INLINE void sum_pixel(std::int64_t at, const Step& step, PairOfSums<kBlock>& sums) {
  using Vs = BlockVectors<kBlock>;
  MILLRACE_FOR_PARTS
  for (std::size_t k = 0; k < Vs::kParts; ++k) {
    step.part(static_cast<std::size_t>(at) + k * Vs::kLanes, k,
              typename PairOfSums<kBlock>::template Part<kWay>{sums, k});
  }
}

// Adds up what the step gives for every pixel of the planes.
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
      sum_pixel<0>(at, step, sums);
      sum_pixel<1>(at + kPixel, step, sums);
      sum_pixel<2>(at + 2 * kPixel, step, sums);
      sum_pixel<3>(at + 3 * kPixel, step, sums);
    }
    for (; at < end; at += kPixel) sum_pixel<0>(at, step, sums);
    pending += planes.values;
    if (pending < kStretch) continue;
    sums.flush(first, second);
    pending = 0;
  }
  sums.flush(first, second);
}

template <int kBlock, class Step>
HWY_INLINE void for_planes(const Planes& planes, const Step& step) {
  using Vs = BlockVectors<kBlock>;
  for (std::int64_t n = 0; n < planes.images; ++n) {
    const std::int64_t begin = planes.first + n * planes.stride;
    for (std::int64_t at = begin; at < begin + planes.values; at += kBlock) {
      MILLRACE_FOR_PARTS
      for (std::size_t k = 0; k < Vs::kParts; ++k)
        step.part(static_cast<std::size_t>(at) + k * Vs::kLanes, k);
    }
  }
}

// Two sums of a vector's channels, kept in memory between visits.
template <class Vs>
class RowSums {
 public:
  HWY_INLINE RowSums(float* first, float* second)
      : to_first_(first),
        to_second_(second),
        first_(hn::LoadU(typename Vs::D(), first)),
        second_(hn::LoadU(typename Vs::D(), second)) {}

  HWY_INLINE void add(typename Vs::V a, typename Vs::V b, typename Vs::V c) {
    first_ = hn::Add(first_, a);
    second_ = hn::MulAdd(b, c, second_);
  }
  HWY_INLINE void store() const {
    hn::StoreU(first_, typename Vs::D(), to_first_);
    hn::StoreU(second_, typename Vs::D(), to_second_);
  }

 private:
  float* to_first_;
  float* to_second_;
  typename Vs::V first_, second_;
};

// A range of channels.
struct Channels {
  std::size_t begin;
  std::size_t end;
};

// Adds up what the step gives for the rows, two rows a visit: of more rows at a time each is on
// another page, which costs a third of the speed.
template <class Vs, class Step>
HWY_INLINE void sum_rows(const Rows& rows, Channels range, const Step& step, float* sums) {
  const auto channels = static_cast<std::size_t>(rows.channels);
  const auto end = static_cast<std::size_t>(rows.end);
  for (auto row = static_cast<std::size_t>(rows.begin); row < end; row += 2) {
    const bool two = row + 1 < end;
    for (std::size_t c = range.begin; c < range.end; c += Vs::kLanes) {
      RowSums<Vs> total(sums + c, sums + channels + c);
      step.part(row * channels + c, c, total);
      if (two) step.part((row + 1) * channels + c, c, total);
      total.store();
    }
  }
}

template <class Vs, class Step>
HWY_INLINE void for_rows(const Rows& rows, Channels range, const Step& step) {
  const auto channels = static_cast<std::size_t>(rows.channels);
  for (auto row = static_cast<std::size_t>(rows.begin); row < static_cast<std::size_t>(rows.end);
       ++row) {
    for (std::size_t c = range.begin; c < range.end; c += Vs::kLanes)
      step.part(row * channels + c, c);
  }
}

// Calls f.operator()<vectors>(channels) for those in whole vectors, and for the rest one by one.
template <class F>
HWY_INLINE void with_row_vectors(std::int64_t channels, const F& f) {
  using Wide = RowVectors<16>;
  const auto count = static_cast<std::size_t>(channels);
  const std::size_t whole = count / Wide::kLanes * Wide::kLanes;
  if (whole > 0) f.template operator()<Wide>(Channels{0, whole});
  if (whole < count) f.template operator()<RowVectors<1>>(Channels{whole, count});
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
