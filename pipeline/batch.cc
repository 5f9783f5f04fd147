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

const RaggedField& Batch::raw(std::string_view name) const {
  const auto found = std::ranges::find(ragged, name, &RaggedField::name);
  if (found == ragged.end())
    throw Error(ErrorCode::kInvalidArgument, "a batch has no ragged field " + std::string(name));
  return *found;
}

void RaggedField::cut(std::int64_t first) {
  const auto begin = static_cast<std::size_t>(first);
  const std::int64_t end = offsets[begin];
  std::fill(offsets.begin() + first, offsets.end(), end);
  data = data.slice(0, static_cast<std::size_t>(end));
}

}  // namespace millrace::pipeline
