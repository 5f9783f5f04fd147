// What stands for the ops in a build without oneDNN (MILLRACE_TRAINER=OFF): everything of the room
// but the computing.
#include "io/base/error.h"
#include "trainer/nn/peaks.h"
#include "trainer/nn/plan.h"

namespace millrace::trainer::nn {

std::unique_ptr<Plan> compile(const Graph&, const PlanOptions&, const PlanMemory&) {
  throw Error(ErrorCode::kUnsupported, "this build has no oneDNN, which computes models");
}

Peaks measure_peaks(Precision) {
  throw Error(ErrorCode::kUnsupported, "this build has no oneDNN, which computes models");
}

bool has_native_bfloat16() { return false; }

std::string compute_library() { return {}; }

}  // namespace millrace::trainer::nn
