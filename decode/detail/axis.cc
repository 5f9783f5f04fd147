#include "decode/detail/axis.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace millrace::decode::detail {
namespace {

constexpr int kOne = 1 << 15;

// Fixed point such that the sum is exactly one: a flat picture stays as it is.
void quantise(std::span<const double> weights, double sum, std::int16_t* out) {
  int left = kOne;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const int value = static_cast<int>(std::lround(weights[i] / sum * kOne));
    left -= value;
    out[i] = static_cast<std::int16_t>(std::min(value, kOne - 1));
    if (weights[i] > weights[largest]) largest = i;
  }
  out[largest] = static_cast<std::int16_t>(std::clamp(out[largest] + left, 0, kOne - 1));
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

void Axis::plan_weights(const AxisRequest& request, int from) {
  const double scale = request.extent / request.size;
  const double support = std::max(scale, 1.0);
  const int low = static_cast<int>(std::floor(request.begin));
  const int high = static_cast<int>(std::ceil(request.begin + request.extent));
  taps = (static_cast<int>(std::ceil(support)) * 2 + 1 + 3) / 4 * 4;
  const auto n = static_cast<std::size_t>(count);
  first.resize(n);
  used.resize(n);
  weights.assign(n * static_cast<std::size_t>(taps), 0);
  begin = high;
  end = low;
  std::vector<double> line(static_cast<std::size_t>(taps));
  for (int i = 0; i < count; ++i) {
    const double centre = request.begin + (from + i + 0.5) * scale;
    const int lowest = std::max(static_cast<int>(centre - support + 0.5), low);
    const int highest = std::min(static_cast<int>(centre + support + 0.5), high);
    double sum = 0;
    for (int x = lowest; x < highest; ++x) {
      const double weight = std::max(0.0, 1.0 - std::abs((x + 0.5 - centre) / support));
      line[static_cast<std::size_t>(x - lowest)] = weight;
      sum += weight;
    }
    const auto at = static_cast<std::size_t>(mirrored ? count - 1 - i : i);
    const auto length = static_cast<std::size_t>(highest - lowest);
    quantise(std::span(line).first(length), sum, &weights[at * static_cast<std::size_t>(taps)]);
    first[at] = lowest;
    used[at] = highest - lowest;
    begin = std::min(begin, lowest);
    end = std::max(end, highest);
  }
}

}  // namespace millrace::decode::detail
