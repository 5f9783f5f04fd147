#include "trainer/nn/peaks.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "trainer/ops/detail/aligned_buffer.h"
#include "trainer/ops/detail/instructions.h"
#include "trainer/ops/detail/onednn_faults.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer {
namespace ops {
namespace {

using Seconds = std::chrono::duration<double>;

// The fastest of the runs of a third of a second, each of a few milliseconds: the speed without
// what else the machine does.
double best_seconds(const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  constexpr Seconds kTime{0.3};
  run();
  double best = std::numeric_limits<double>::max();
  const Clock::time_point begin = Clock::now();
  do {
    const Clock::time_point start = Clock::now();
    run();
    best = std::min(best, Seconds(Clock::now() - start).count());
  } while (Clock::now() - begin < kTime);
  return best;
}

// Small numbers in either type: the bytes of 0.0115.
dnnl::memory filled(const Context& context, const Desc& desc) {
  dnnl::memory memory(desc, context.engine);
  std::memset(memory.get_data_handle(), 0x3c, desc.get_size());
  return memory;
}

template <typename Descriptor>
double rate_of(const Context& context, const Descriptor& descriptor, double flops) {
  const Desc scratchpad = descriptor.scratchpad_desc();
  const Call call(dnnl::primitive(descriptor.get()),
                  {{DNNL_ARG_SRC, filled(context, descriptor.src_desc())},
                   {DNNL_ARG_WEIGHTS, filled(context, descriptor.weights_desc())},
                   {DNNL_ARG_DST, filled(context, descriptor.dst_desc())},
                   {DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad, context.engine)}});
  return flops / best_seconds([&] { call.run(context); });
}

double product_rate(const Context& context) {
  constexpr std::int64_t kSide = 512;
  const Desc any({kSide, kSide}, context.type, FormatTag::any);
  return rate_of(context, inner_product(context, {any, any, {}, any}), 2.0 * kSide * kSide * kSide);
}

double convolution_rate(const Context& context) {
  constexpr std::int64_t kImages = 4;
  constexpr std::int64_t kChannels = 128;
  constexpr std::int64_t kSide = 28;
  const Desc image({kImages, kChannels, kSide, kSide}, context.type, FormatTag::any);
  const Desc weights({kChannels, kChannels, 3, 3}, context.type, FormatTag::any);
  const auto descriptor =
      convolution(context, {image, weights, {}, image},
                  {.strides = {1, 1}, .dilates = {0, 0}, .before = {1, 1}, .after = {1, 1}});
  return rate_of(context, descriptor, 2.0 * kImages * kSide * kSide * kChannels * kChannels * 9);
}

double copy_rate() {
  constexpr std::size_t kBytes = std::size_t{128} << 20U;
  const AlignedBuffer from(kBytes);
  const AlignedBuffer to(kBytes);
  const double seconds = best_seconds([&] {
    const auto threads = static_cast<std::size_t>(omp_get_max_threads());
    const std::size_t share = kBytes / threads;
#pragma omp parallel for schedule(static)
    for (std::size_t i = 0; i < threads; ++i)
      std::memcpy(to.data() + i * share, from.data() + i * share, share);
  });
  return 2.0 * kBytes / seconds;
}

Context context_of(nn::Precision precision) {
  Context context;
  const bool half = precision == nn::Precision::kBFloat16 && nn::has_native_bfloat16();
  context.type = half ? DataType::bf16 : DataType::f32;
  return context;
}

}  // namespace
}  // namespace ops

nn::Peaks nn::measure_peaks(Precision precision) {
  static_cast<void>(ops::usable_isa());  // read before oneDNN is used
  try {
    const ops::Context context = ops::context_of(precision);
    return {.flops = std::max(ops::product_rate(context), ops::convolution_rate(context)),
            .bytes = ops::copy_rate()};
  } catch (const dnnl::error& problem) {
    ops::throw_onednn(problem.status, problem.what());
  }
}

}  // namespace millrace::trainer
