#include "trainer/hlo/loss_program.h"

#include "trainer/hlo/operations.h"

namespace millrace::trainer::hlo {
namespace {

constexpr std::int64_t kClasses = 1;

std::vector<std::int64_t> all_but(std::int64_t dimension, std::size_t rank) {
  std::vector<std::int64_t> others;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(rank); ++i)
    if (i != dimension) others.push_back(i);
  return others;
}

}  // namespace

Tensor sum_of_slots(const Tensor& x) { return sum(x, all_but(0, x.shape.size())); }
Tensor to_slots(const Tensor& x, const Shape& shape) { return broadcast(x, shape, {0}); }

CountedTensor counted(const Tensor& target) {
  const Tensor flags = compare(target, Order::kEqual, target);
  return {.flags = flags,
          .target = select(flags, target, 0.0),
          .number = max(sum_of_slots(float32(flags)), 1.0)};
}

LossResults mean_of_values(const LossArguments& of, const ValueFunction& value,
                           const ValueFunction& slope) {
  const Tensor x = of.prediction;
  const CountedTensor only = counted(of.target);
  return {.loss = sum_of_slots(select(only.flags, value(x, only.target), 0.0)) / only.number,
          .gradient = [=] {
            return select(only.flags, slope(x, only.target), 0.0) / to_slots(only.number, x.shape);
          }};
}

Tensor to_classes(const Tensor& x, const Shape& shape) {
  return broadcast(x, shape, all_but(kClasses, shape.size()));
}

SoftmaxOfClasses softmax_of_classes(const Tensor& logits) {
  const Tensor top = largest(logits, {kClasses});
  const Tensor powers = exp(logits - to_classes(top, logits.shape));
  const Tensor total = sum(powers, {kClasses});
  return {.shares = powers / to_classes(total, logits.shape), .log_sum = top + log(total)};
}

Tensor is_class(const Tensor& labels, const Shape& shape) {
  return compare(iota(*labels.builder, Type::kInt32, shape, kClasses), Order::kEqual,
                 to_classes(labels, shape));
}

}  // namespace millrace::trainer::hlo
