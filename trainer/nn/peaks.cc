#include "trainer/nn/peaks.h"

#include <algorithm>

namespace millrace::trainer::nn {

double Peaks::least_seconds(const PlanStep& step) const {
  return std::max(flops > 0 ? step.flops / flops : 0.0, bytes > 0 ? step.bytes / bytes : 0.0);
}

}  // namespace millrace::trainer::nn
