#include "trainer/hlo/rule_program.h"

#include <cmath>

#include "trainer/hlo/operations.h"

namespace millrace::trainer::hlo {

Tensor decayed_gradient(const RuleArguments& of) {
  if (of.weight_decay == 0.0F) return of.gradient;
  return of.gradient + of.weight * static_cast<double>(of.weight_decay);
}

Tensor decayed_weight(const RuleArguments& of) {
  if (of.weight_decay == 0.0F) return of.weight;
  return (1.0 - of.lr * static_cast<double>(of.weight_decay)) * of.weight;
}

Tensor moving_mean(const Tensor& old, const Tensor& now, float keep) {
  return old * static_cast<double>(keep) + now * static_cast<double>(1.0F - keep);
}

Tensor bias_of_mean(const Tensor& step, float keep) {
  return -expm1(float32(step) * std::log(static_cast<double>(keep)));
}

Tensor norm(const Tensor& x) { return sqrt(sum(x * x, dimensions_of(x))); }

Tensor ratio_or_one(const Tensor& over, const Tensor& under, double factor) {
  const Tensor has_ratio =
      both(compare(over, Order::kGreater, 0.0), compare(under, Order::kGreater, 0.0));
  return select(has_ratio, factor * over / under, 1.0);
}

}  // namespace millrace::trainer::hlo
