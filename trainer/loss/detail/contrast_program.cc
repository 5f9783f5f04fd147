#include "trainer/loss/detail/contrast_program.h"

#include <algorithm>
#include <vector>

#include "trainer/hlo/operations.h"

namespace millrace::trainer {
namespace hlo {
namespace {

using detail::Contrast;
using detail::kLeastNorm;
using detail::Lengths;

/// As a logit: exp makes 0 of it beside any other.
constexpr double kNoLogit = -1e30;

/// (N) and (M), as each place of (N, M).
Tensor by_row(const Tensor& rows, const Shape& shape) { return broadcast(rows, shape, {0}); }
Tensor by_column(const Tensor& columns, const Shape& shape) {
  return broadcast(columns, shape, {1});
}

/// The slots of all that this replica's own are compared with.
struct Slots {
  Tensor compared;   ///< flags (N, M): valid, and another
  Tensor positives;  ///< of these, 1 where both are of one sample: float32
  Tensor count;      ///< how many a slot has, (N)
  Tensor counts;     ///< likewise of all, (M)
};

/// What has one part is not compared with itself.
Slots slots_of(const LossArguments& of, bool with_itself) {
  const auto all = [&](const Tensor& x) { return of.training ? gather_over_replicas(x) : x; };
  Builder& builder = *of.valid.builder;
  const std::int64_t own = of.valid.shape[0];
  const Tensor valid = compare(all(float32(of.valid)), Order::kNotEqual, 0.0);
  const Shape shape = {own, valid.shape[0]};
  Slots slots{.compared = by_column(valid, shape), .positives = {}, .count = {}, .counts = {}};
  if (!with_itself) {
    Tensor row = iota(builder, Type::kInt32, shape, 0);
    if (of.training)
      row = row + broadcast(own_replica(builder) * static_cast<double>(own), shape, {});
    slots.compared =
        both(slots.compared, compare(row, Order::kNotEqual, iota(builder, Type::kInt32, shape, 1)));
  }
  const Tensor same =
      compare(by_row(of.target, shape), Order::kEqual, by_column(all(of.target), shape));
  slots.positives = float32(both(slots.compared, same));
  slots.count = sum(slots.positives, {1});
  slots.counts = all(slots.count);
  return slots;
}

/// A part's embeddings: of the model, their lengths, and of length 1.
struct Part {
  Tensor length;  ///< (N)
  Tensor own;     ///< (N, F), as they are compared
  Tensor all;     ///< (M, F)
};

Part tower_of(const LossArguments& of, const Contrast& contrast, std::int64_t number) {
  const std::int64_t width = of.prediction.shape[1] / contrast.parts;
  const Tensor z = slice(of.prediction, 1, number * width, (number + 1) * width);
  Part part{.length = sqrt(sum(z * z, {1})), .own = z, .all = {}};
  if (contrast.lengths == Lengths::kOne)
    part.own = z / by_row(max(part.length, static_cast<double>(kLeastNorm)), z.shape);
  part.all = of.training ? gather_over_replicas(part.own) : part.own;
  return part;
}

/// Of a part's own slots to the other part's of all.
struct Logits {
  Tensor values;   ///< (N, M), kNoLogit where nothing is compared
  Tensor log_sum;  ///< (N); 0 of a slot that is compared with none
};

Logits logits_of(const Tensor& own, const Tensor& all, const Slots& slots, float temperature) {
  const Tensor products = dot(own, 1, all, 1) / static_cast<double>(temperature);
  Logits logits{.values = select(slots.compared, products, kNoLogit), .log_sum = {}};
  const Tensor top = largest(logits.values, {1});
  const Tensor sums = sum(exp(logits.values - by_row(top, products.shape)), {1});
  logits.log_sum = select(compare(top, Order::kGreater, kNoLogit), top + log(sums), 0.0);
  return logits;
}

/// Each slot's; 0 without a positive.
Tensor loss_of(const Logits& logits, const Slots& slots) {
  const Tensor mean = sum(slots.positives * logits.values, {1}) / max(slots.count, 1.0);
  return select(compare(slots.count, Order::kGreater, 0.0), logits.log_sum - mean, 0.0);
}

/// Flags (N): fewer than `most` others are as near as the nearest positive.
Tensor is_near(const Logits& logits, const Slots& slots, double most) {
  const Tensor positive = compare(slots.positives, Order::kGreater, 0.0);
  const Tensor best = largest(select(positive, logits.values, kNoLogit), {1});
  const Tensor nearer =
      both(compare(logits.values, Order::kGreaterOrEqual, by_row(best, logits.values.shape)),
           both(slots.compared, inverse(positive)));
  return both(compare(sum(float32(nearer), {1}), Order::kLess, most),
              compare(slots.count, Order::kGreater, 0.0));
}

/// d (all slots' losses) / d logits, (N, M): of its own row, and of its column in the others' rows,
/// which are those of the other part. `log_sums` (M) are theirs.
Tensor slope_of(const Logits& logits, const Slots& slots, const Tensor& log_sums) {
  const Shape& shape = logits.values.shape;
  const auto has_positive = [](const Tensor& count) {
    return float32(compare(count, Order::kGreater, 0.0));
  };
  const Tensor own = exp(logits.values - by_row(logits.log_sum, shape));
  const Tensor others = exp(logits.values - by_column(log_sums, shape));
  const Tensor wanted = 2.0 * slots.positives / by_row(max(slots.count, 1.0), shape);
  const Tensor slope = own * by_row(has_positive(slots.count), shape) +
                       others * by_column(has_positive(slots.counts), shape) - wanted;
  return select(slots.compared, slope, 0.0);
}

/// d / d the part, as the model gives it.
Tensor gradient_of(const Part& part, const Tensor& along, Lengths lengths) {
  if (lengths == Lengths::kAsTheyAre) return along;
  const Shape& shape = along.shape;
  const auto least = static_cast<double>(kLeastNorm);
  const Tensor across = along - by_row(sum(along * part.own, {1}), shape) * part.own;
  const Tensor has_direction = compare(part.length, Order::kGreaterOrEqual, least);
  return select(by_row(has_direction, shape), across / by_row(max(part.length, least), shape), 0.0);
}

LossResults contrasted(const LossArguments& of, const Contrast& contrast) {
  const auto parts = static_cast<std::size_t>(contrast.parts);
  const Slots slots = slots_of(of, parts > 1);
  std::vector<Part> part;
  for (std::size_t i = 0; i < parts; ++i)
    part.push_back(tower_of(of, contrast, static_cast<std::int64_t>(i)));
  std::vector<Logits> logits;
  for (std::size_t i = 0; i < parts; ++i)
    logits.push_back(logits_of(part[i].own, part[parts - 1 - i].all, slots, contrast.temperature));
  Tensor loss = loss_of(logits[0], slots);
  if (parts > 1) loss = (loss + loss_of(logits[1], slots)) * 0.5;
  return {.loss = loss,
          .gradient =
              [=] {
                const double scale = 1.0 / (contrast.temperature * static_cast<double>(parts));
                std::vector<Tensor> gradients;
                for (std::size_t i = 0; i < parts; ++i) {
                  const std::size_t other = parts - 1 - i;
                  const Tensor log_sums = gather_over_replicas(logits[other].log_sum);
                  const Tensor slope = slope_of(logits[i], slots, log_sums);
                  const Tensor along = dot(slope, 1, part[other].all, 0) * scale;
                  gradients.push_back(gradient_of(part[i], along, contrast.lengths));
                }
                return concatenate(gradients, 1);
              },
          .top1 = is_near(logits[0], slots, 1),
          .top5 = is_near(logits[0], slots, 5)};
}

}  // namespace
}  // namespace hlo

hlo::LossResults detail::contrast_program(const hlo::LossArguments& of, const Contrast& contrast) {
  return hlo::contrasted(of, contrast);
}

}  // namespace millrace::trainer
