#include "pipeline/detail/batch_layout.h"

#include <algorithm>
#include <array>
#include <utility>

#include "io/base/error.h"

namespace millrace::pipeline::detail {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMaxFields = 64;
/// More than any machine has: keeps the arithmetic far from overflow.
constexpr std::size_t kMaxBytes = std::size_t{1} << 46;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

BatchLayout::BatchLayout(const std::vector<FieldSpec>& fields, std::int64_t batch_size)
    : batch_size_(batch_size) {
  for (const FieldSpec& spec : fields) {
    decoders_.push_back(compile_field(spec));
    for (const FieldDecoder::Output& output : decoders_.back()->outputs()) add_field(output);
  }
  if (fields_.size() > kMaxFields) {
    throw Error(ErrorCode::kInvalidArgument,
                "a batch has at most " + std::to_string(kMaxFields) + " fields");
  }
}

void BatchLayout::add_field(const FieldDecoder::Output& output) {
  for (const Field& other : fields_) {
    if (other.name == output.name) {
      throw Error(ErrorCode::kInvalidArgument, "two fields are named " + output.name);
    }
  }
  const std::size_t slot_bytes = output.spec.num_bytes();
  const auto slots = static_cast<std::size_t>(batch_size_);
  if (slot_bytes > kMaxBytes / slots) {
    throw Error(ErrorCode::kInvalidArgument,
                "a batch of field " + output.name + " is larger than any memory");
  }
  fields_.push_back({output.name, output.spec, num_bytes_, slot_bytes});
  num_bytes_ = aligned(num_bytes_ + slot_bytes * slots);
}

decode::Tidiness BatchLayout::decode(const wds::Sample& sample, const decode::SampleId& id,
                                     std::byte* buffer, std::int64_t slot_index) const {
  auto tidiness = decode::Tidiness::kTidy;
  std::array<std::span<std::byte>, kMaxFields> slots;
  std::size_t field = 0;
  for (const auto& decoder : decoders_) {
    const std::size_t count = decoder->outputs().size();
    for (std::size_t i = 0; i < count; ++i) slots[i] = slot(buffer, field++, slot_index);
    tidiness = std::max(tidiness, decoder->decode(sample, id, std::span(slots).first(count)));
  }
  return tidiness;
}

std::vector<BatchField> BatchLayout::show(std::byte* buffer, std::int64_t size) const {
  std::vector<BatchField> shown;
  shown.reserve(fields_.size());
  for (const Field& field : fields_) {
    decode::ArraySpec spec = field.spec;
    spec.shape.insert(spec.shape.begin(), size);
    std::span<std::byte> data;
    if (buffer) data = {buffer + field.offset, field.slot_bytes * static_cast<std::size_t>(size)};
    shown.push_back({field.name, std::move(spec), data});
  }
  return shown;
}

}  // namespace millrace::pipeline::detail
