#include "trainer/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "trainer/detail/flat_chunks.h"

namespace millrace::trainer {

double auroc(std::span<const float> scores, std::span<const float> targets) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double positives = 0.0;
  double rank_sum = 0.0;
  for (std::size_t at = 0; at < order.size();) {
    std::size_t end = at;
    while (end < order.size() && scores[order[end]] == scores[order[at]]) ++end;
    if (end == at) return std::numeric_limits<double>::quiet_NaN();  // a score that is NaN
    const double rank = 0.5 * static_cast<double>(at + 1 + end);     // of equal scores, their mean
    for (; at < end; ++at) {
      if (targets[order[at]] <= 0.5F) continue;
      positives += 1.0;
      rank_sum += rank;
    }
  }
  const double negatives = static_cast<double>(order.size()) - positives;
  if (positives == 0.0 || negatives == 0.0) return std::numeric_limits<double>::quiet_NaN();
  return (rank_sum - positives * (positives + 1.0) / 2.0) / (positives * negatives);
}

void MaskCounts::add(std::span<const float> logits, std::span<const float> targets) {
  const auto count = [&](const auto& holds) {
    return flat::sum_over([&](auto x, auto y) { return holds(x, y).template cast<float>(); },
                          logits, targets);
  };
  const double both_here = count([](auto x, auto y) { return x > 0.0F && y > 0.5F; });
  const double predicted = count([](auto x, auto) { return x > 0.0F; });
  const double wanted = count([](auto, auto y) { return y > 0.5F; });
  both += both_here;
  only_predicted += predicted - both_here;
  only_target += wanted - both_here;
  neither += static_cast<double>(logits.size()) - predicted - wanted + both_here;
}

double mean_iou(const MaskCounts& counts) {
  const double wrong = counts.only_predicted + counts.only_target;
  double sum = 0.0;
  double classes = 0.0;
  for (const double right : {counts.both, counts.neither}) {
    if (right + wrong == 0.0) continue;
    sum += right / (right + wrong);
    classes += 1.0;
  }
  return classes > 0.0 ? sum / classes : std::numeric_limits<double>::quiet_NaN();
}

double squared_error(std::span<const float> predictions, std::span<const float> targets) {
  return flat::sum_over(
      [](auto a, auto b) {
        return (a.template cast<double>() - b.template cast<double>()).square();
      },
      predictions, targets);
}

}  // namespace millrace::trainer
