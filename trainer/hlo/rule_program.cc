#include "trainer/hlo/rule_program.h"

#include "trainer/hlo/operations.h"

namespace millrace::trainer::hlo {

Tensor decayed_gradient(const RuleArguments& of) {
  if (of.weight_decay == 0.0F) return of.gradient;
  return of.gradient + of.weight * static_cast<double>(of.weight_decay);
}

}  // namespace millrace::trainer::hlo
