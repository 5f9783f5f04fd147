#include "decode/detail/axis.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace millrace::decode::detail {
namespace {

constexpr int kOne = 1 << 15;

// Fixed point such that the sum is exactly one: a uniform picture stays unchanged.
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

// Computes the weights of pixel `at`, whose centre is at `centre` in the input.
void Axis::weigh(int at, int lowest, int highest, double centre, double support) {
  double sum = 0;
  for (int x = lowest; x < highest; ++x) {
    const double weight = std::max(0.0, 1.0 - std::abs((x + 0.5 - centre) / support));
    line_[static_cast<std::size_t>(x - lowest)] = weight;
    sum += weight;
  }
  const auto place = static_cast<std::size_t>(at);
  const auto length = static_cast<std::size_t>(highest - lowest);
  quantise(std::span(line_).first(length), sum, &weights[place * static_cast<std::size_t>(taps)]);
  first[place] = lowest;
  used[place] = highest - lowest;
  begin = std::min(begin, lowest);
  end = std::max(end, highest);
}

void Axis::plan_weights(const AxisRequest& request, int from) {
  const double scale = request.extent / request.size;
  const double support = std::max(scale, 1.0);
  const int low = static_cast<int>(std::floor(request.begin));
  const int high = static_cast<int>(std::ceil(request.begin + request.extent));
  taps = request.nearest ? 1 : static_cast<int>(std::ceil(support)) * 2 + 1;
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
    if (request.nearest) {
      // Dividing last keeps a centre on a pixel's edge exactly on that edge.
      const double exact = request.begin + (from + i + 0.5) * request.extent / request.size;
      const int pixel = std::clamp(static_cast<int>(exact), low, high - 1);
      weigh(at, pixel, pixel + 1, pixel + 0.5, 1.0);
    } else {
      weigh(at, std::max(static_cast<int>(std::floor(centre - support + 0.5)), low),
            std::min(static_cast<int>(std::floor(centre + support + 0.5)), high), centre, support);
    }
  }
}

}  // namespace millrace::decode::detail
