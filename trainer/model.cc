#include "trainer/model.h"

#include "io/base/error.h"

namespace millrace::trainer {

std::unique_ptr<Model> Model::tied(const TieHook& /*hook*/) const {
  throw Error(ErrorCode::kInvalidArgument, name() + " has no graph whose layers could be tied");
}

}  // namespace millrace::trainer
