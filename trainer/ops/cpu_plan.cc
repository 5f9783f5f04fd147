#include "io/base/error.h"
#include "trainer/nn/plan.h"

namespace millrace::trainer::nn {

std::unique_ptr<Plan> compile(const Graph&, const PlanOptions&, const PlanBuffers&) {
  throw Error(ErrorCode::kUnsupported, "no backend yet");
}

bool has_native_bfloat16() { return false; }

}  // namespace millrace::trainer::nn
