#include "decode/detail/axis.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace millrace::decode::detail {
namespace {

constexpr int kLargest = 32767;

// Fixed point such that the sum is exactly one: a uniform picture stays unchanged.
void quantise(std::span<const double> weights, double sum, int one, std::int16_t* out) {
  int left = one;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const int value = static_cast<int>(std::lround(weights[i] / sum * one));
    left -= value;
    out[i] = static_cast<std::int16_t>(std::min(value, kLargest));
    if (weights[i] > weights[largest]) largest = i;
  }
  out[largest] = static_cast<std::int16_t>(std::clamp(out[largest] + left, 0, kLargest));
}

}  // namespace

void Axis::plan(const AxisRequest& request) {
  const int from = std::clamp(request.window_begin, 0, request.size);
  const int to = std::clamp(request.window_begin + request.window_size, from, request.size);
  count = to - from;
  lead = count == 0 ? request.window_size : from - request.window_begin;
  trail = request.window_size - lead - count;
  mirrored = request.mirrored;
  if (mirrored) std::swap(lead, trail);
  copies = request.extent == request.size && request.begin == std::floor(request.begin);
  if (copies || count == 0) {
    copies = true;
    begin = static_cast<int>(request.begin) + from;
    end = begin + count;
  } else {
    plan_weights(request, from);
  }
}

// Computes the weights of pixel `at`, whose centre is at `centre` in the input, by a filter that is
// stretched to `width`.
void Axis::weigh(int at, int lowest, int highest, double centre, double width) {
  double sum = 0;
  for (int x = lowest; x < highest; ++x) {
    const double weight = filter_weight(filter_, (x + 0.5 - centre) / width);
    line_[static_cast<std::size_t>(x - lowest)] = weight;
    sum += weight;
  }
  const auto place = static_cast<std::size_t>(at);
  const auto length = static_cast<std::size_t>(highest - lowest);
  quantise(std::span(line_).first(length), sum, 1 << bits,
           &weights[place * static_cast<std::size_t>(taps)]);
  first[place] = lowest;
  used[place] = highest - lowest;
  begin = std::min(begin, lowest);
  end = std::max(end, highest);
}

void Axis::plan_weights(const AxisRequest& request, int from) {
  const double scale = request.extent / request.size;
  const double width = std::max(scale, 1.0);
  const bool nearest = request.interpolation == Interpolation::kNearest;
  filter_ = request.interpolation;
  const int reach = filter_reach(filter_);
  const double support = reach * width;
  bits = reach > 1 ? 14 : 15;
  const int low = static_cast<int>(std::floor(request.begin));
  const int high = static_cast<int>(std::ceil(request.begin + request.extent));
  taps = nearest ? 1 : static_cast<int>(std::ceil(support)) * 2 + 1;
  const auto n = static_cast<std::size_t>(count);
  first.resize(n);
  used.resize(n);
  weights.assign(n * static_cast<std::size_t>(taps), 0);
  line_.resize(static_cast<std::size_t>(taps));
  begin = high;
  end = low;
  for (int i = 0; i < count; ++i) {
    const double centre = request.begin + (from + i + 0.5) * scale;
    const int at = mirrored ? count - 1 - i : i;
    if (nearest) {
      // Dividing last keeps a centre on a pixel's edge exactly on that edge.
      const double exact = request.begin + (from + i + 0.5) * request.extent / request.size;
      const int pixel = std::clamp(static_cast<int>(exact), low, high - 1);
      weigh(at, pixel, pixel + 1, pixel + 0.5, 1.0);
    } else {
      weigh(at, std::max(static_cast<int>(std::floor(centre - support + 0.5)), low),
            std::min(static_cast<int>(std::floor(centre + support + 0.5)), high), centre, width);
    }
  }
}

}  // namespace millrace::decode::detail
