#include "pipeline/detail/batch_layout.h"

#include <utility>

#include "io/base/error.h"

namespace millrace::pipeline::detail {
namespace {

constexpr std::size_t kAlignment = 64;
/// More than any machine has: keeps the arithmetic far from overflow.
constexpr std::size_t kMaxBytes = std::size_t{1} << 46;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

BatchLayout::BatchLayout(const std::vector<FieldSpec>& fields, std::int64_t batch_size)
    : batch_size_(batch_size) {
  for (const FieldSpec& spec : fields) add(spec);
}

void BatchLayout::add(const FieldSpec& spec) {
  Entry entry{.decoder = compile_field(spec), .offset = num_bytes_};
  for (const Entry& other : fields_) {
    if (other.decoder->name() == entry.decoder->name()) {
      throw Error(ErrorCode::kInvalidArgument, "two fields are named " + entry.decoder->name());
    }
  }
  entry.slot_bytes = entry.decoder->output().num_bytes();
  if (entry.slot_bytes > kMaxBytes / static_cast<std::size_t>(batch_size_)) {
    throw Error(ErrorCode::kInvalidArgument,
                "a batch of field " + entry.decoder->name() + " is larger than any memory");
  }
  num_bytes_ = aligned(num_bytes_ + entry.slot_bytes * static_cast<std::size_t>(batch_size_));
  fields_.push_back(std::move(entry));
}

std::vector<BatchField> BatchLayout::show(std::byte* buffer, std::int64_t size) const {
  std::vector<BatchField> fields;
  fields.reserve(fields_.size());
  for (const Entry& entry : fields_) {
    decode::ArraySpec spec = entry.decoder->output();
    spec.shape.insert(spec.shape.begin(), size);
    std::span<std::byte> data;
    if (buffer) data = {buffer + entry.offset, entry.slot_bytes * static_cast<std::size_t>(size)};
    fields.push_back({entry.decoder->name(), std::move(spec), data});
  }
  return fields;
}

}  // namespace millrace::pipeline::detail
