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

std::size_t Batch::num_bytes() const {
  std::size_t bytes = 0;
  for (const BatchField& field : fields) bytes += field.data.size();
  for (const RaggedField& field : ragged) bytes += field.data.size();
  return bytes;
}

void trace_batch(const Batch& batch, TraceSpan& span) {
  if (!span) return;
  span.arg("batch", batch.index);
  span.arg("samples", batch.num_valid);
  span.arg("bytes", batch.num_bytes());
  const auto is_named = [](const std::string& key) { return !key.empty(); };
  const auto first = std::ranges::find_if(batch.keys, is_named);
  if (first == batch.keys.end()) return;
  span.arg("first_key", *first);
  span.arg("last_key", *std::find_if(batch.keys.rbegin(), batch.keys.rend(), is_named));
}

void RaggedField::cut(std::int64_t first) {
  const auto begin = static_cast<std::size_t>(first);
  const std::int64_t end = offsets[begin];
  std::fill(offsets.begin() + first, offsets.end(), end);
  data = data.slice(0, static_cast<std::size_t>(end));
}

}  // namespace millrace::pipeline
