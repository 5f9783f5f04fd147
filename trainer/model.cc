#include "trainer/model.h"

#include "io/base/error.h"

namespace millrace::trainer {

std::unique_ptr<nn::Plan> Model::compile(const nn::PlanOptions& options,
                                         const nn::PlanMemory& memory) const {
  if (graph() == nullptr) throw Error(ErrorCode::kUnsupported, name() + " has no graph to compile");
  return nn::compile(*graph(), options, memory);
}

std::unique_ptr<Model> Model::tied(const TieHook& /*hook*/) const {
  throw Error(ErrorCode::kInvalidArgument, name() + " has no graph whose layers could be tied");
}

bool has_batch_norms(const Model& model) { return !model.buffers().entries().empty(); }

}  // namespace millrace::trainer
