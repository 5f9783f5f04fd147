#include "trainer/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "trainer/detail/flat_chunks.h"

namespace millrace::trainer {

double auroc(std::span<const float> scores, std::span<const float> targets) {
  // A NaN has no rank, and would break the sort.
  if (std::ranges::any_of(scores, [](float score) { return std::isnan(score); }))
    return std::numeric_limits<double>::quiet_NaN();
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double positives = 0.0;
  double rank_sum = 0.0;
  for (std::size_t at = 0; at < order.size();) {
    std::size_t end = at;
    while (end < order.size() && scores[order[end]] == scores[order[at]]) ++end;
    const double rank = 0.5 * static_cast<double>(at + 1 + end);  // of equal scores, their mean
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

// A loop over integers, which the compiler vectorises: Eigen 3.4 compares value by value and takes
// ten times as long.
void MaskCounts::add(std::span<const float> logits, std::span<const float> targets) {
  std::int64_t both_here = 0;
  std::int64_t predicted = 0;
  std::int64_t wanted = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const int x = logits[i] > 0.0F ? 1 : 0;
    const int y = targets[i] > 0.5F ? 1 : 0;
    both_here += x & y;
    predicted += x;
    wanted += y;
  }
  const auto all = static_cast<std::int64_t>(logits.size());
  both += static_cast<double>(both_here);
  only_predicted += static_cast<double>(predicted - both_here);
  only_target += static_cast<double>(wanted - both_here);
  neither += static_cast<double>(all - predicted - wanted + both_here);
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

void ClassCounts::add(std::span<const float> logits, std::span<const std::int64_t> labels,
                      std::int64_t ignore) {
  std::vector<float> best(logits.begin(),
                          logits.begin() + static_cast<std::ptrdiff_t>(labels.size()));
  std::vector<std::uint32_t> choice(labels.size());
  for (std::size_t k = 1; k < both.size(); ++k) {
    const float* own = logits.data() + k * labels.size();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const bool better = own[i] > best[i];
      best[i] = better ? own[i] : best[i];
      choice[i] = better ? static_cast<std::uint32_t>(k) : choice[i];
    }
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == ignore) continue;
    const auto label = static_cast<std::size_t>(labels[i]);
    wanted[label] += 1.0;
    predicted[choice[i]] += 1.0;
    if (choice[i] == label) both[label] += 1.0;
  }
}

std::vector<double> class_ious(const ClassCounts& counts) {
  std::vector<double> ious;
  for (std::size_t k = 0; k < counts.both.size(); ++k)
    ious.push_back(counts.both[k] / (counts.predicted[k] + counts.wanted[k] - counts.both[k]));
  return ious;
}

double mean_iou(const ClassCounts& counts) {
  double sum = 0.0;
  double classes = 0.0;
  for (const double iou : class_ious(counts)) {
    if (std::isnan(iou)) continue;
    sum += iou;
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
