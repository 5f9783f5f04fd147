#include "pipeline/batch.h"

#include <algorithm>

#include "io/base/error.h"

namespace millrace::pipeline {

const BatchField& Batch::field(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const BatchField& field) { return field.name == name; });
  if (found == fields.end()) {
    throw Error(ErrorCode::kInvalidArgument, "a batch has no field " + std::string(name));
  }
  return *found;
}

}  // namespace millrace::pipeline
