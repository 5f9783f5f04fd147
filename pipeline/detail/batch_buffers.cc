#include "pipeline/detail/batch_buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/thread_annotations.h"
#include "pipeline/detail/meters.h"

namespace millrace::pipeline::detail {
namespace {

constexpr std::size_t kAlignment = 64;
/// More than any machine has: keeps the arithmetic far from overflow.
constexpr std::size_t kMaxBytes = std::size_t{1} << 46;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct AlignedDelete {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{kAlignment}); }
};
using AlignedBuffer = std::unique_ptr<std::byte, AlignedDelete>;

/// Before a product of any size overflows.
void check_size(const FieldDecoder::Output& output, std::size_t slots) {
  std::size_t bytes = slots * decode::dtype_size(output.spec.dtype);
  for (const std::int64_t extent : output.spec.shape) {
    require(extent >= 0, "field " + output.name + ": a shape has no negative sizes");
    const auto size = static_cast<std::size_t>(extent);
    require(size == 0 || bytes <= kMaxBytes / size,
            "a batch of field " + output.name + " is larger than any memory");
    bytes *= size;
  }
}

AlignedBuffer allocate(std::size_t bytes) {
  return AlignedBuffer(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment})));
}

}  // namespace

BatchLayout::BatchLayout(const FieldDecoders& decoders, std::int64_t batch_size,
                         const RaggedDecoders& ragged,
                         const std::vector<FieldDecoder::Output>& added)
    : batch_size_(batch_size) {
  for (const auto& decoder : decoders)
    for (const FieldDecoder::Output& output : decoder->outputs()) add_field(output);
  for (const FieldDecoder::Output& output : added) add_field(output);
  for (const RaggedDecoder& decoder : ragged) add_ragged(decoder);
  require(fields_.size() + ragged_.size() <= kMaxFields,
          "a batch has at most " + std::to_string(kMaxFields) + " fields");
}

void BatchLayout::check_name(const std::string& name) const {
  const bool taken = std::ranges::find(fields_, name, &Field::name) != fields_.end() ||
                     std::ranges::find(ragged_, name) != ragged_.end();
  require(!taken, "two fields are named " + name);
}

void BatchLayout::add_ragged(const RaggedDecoder& decoder) {
  check_name(decoder.name());
  const auto slots = static_cast<std::size_t>(batch_size_);
  require(decoder.max_bytes() <= kMaxBytes / slots,
          "a batch of field " + decoder.name() + " is larger than any memory");
  ragged_.push_back(decoder.name());
  ragged_bytes_ += decoder.max_bytes() * slots;
}

void BatchLayout::add_field(const FieldDecoder::Output& output) {
  check_name(output.name);
  const auto slots = static_cast<std::size_t>(batch_size_);
  check_size(output, slots);
  const std::size_t slot_bytes = output.spec.num_bytes();
  fields_.push_back({output.name, output.spec, num_bytes_, slot_bytes});
  num_bytes_ = aligned(num_bytes_ + slot_bytes * slots);
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

std::vector<RaggedField> BatchLayout::join(const std::vector<std::vector<io::Bytes>>& values,
                                           std::int64_t size) const {
  std::vector<RaggedField> fields;
  for (std::size_t i = 0; i < ragged_.size(); ++i) {
    RaggedField field{.name = ragged_[i], .offsets = {0}, .data = {}};
    std::vector<std::byte> data;
    const std::size_t given = i < values.size() ? values[i].size() : 0;
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(size); ++slot) {
      if (slot < given) {
        const auto value = values[i][slot].span();
        data.insert(data.end(), value.begin(), value.end());
      }
      field.offsets.push_back(static_cast<std::int64_t>(data.size()));
    }
    field.data = io::Bytes::take(std::move(data));
    fields.push_back(std::move(field));
  }
  return fields;
}

struct BatchPool::Shared {
  Shared(std::size_t bytes, std::size_t kept, AllocateBuffer allocate_buffer)
      : buffer_bytes(std::max<std::size_t>(bytes, 1)),
        max_kept(kept),
        allocate(std::move(allocate_buffer)) {}

  void give_back(AlignedBuffer buffer) {
    MutexLock lock(mutex);
    if (!closed && free.size() < max_kept) {
      free.push_back(std::move(buffer));
    } else {
      held.subtract(buffer_bytes);
    }
  }

  const std::size_t buffer_bytes;
  const std::size_t max_kept;
  const AllocateBuffer allocate;
  ByteGauge held;
  Mutex mutex;
  std::vector<AlignedBuffer> free MILLRACE_GUARDED_BY(mutex);
  bool closed MILLRACE_GUARDED_BY(mutex) = false;
};

BatchPool::BatchPool(std::size_t buffer_bytes, std::size_t max_kept, AllocateBuffer allocate)
    : shared_(std::make_shared<Shared>(buffer_bytes, max_kept, std::move(allocate))) {}

BatchPool::~BatchPool() {
  MutexLock lock(shared_->mutex);
  shared_->closed = true;
  shared_->free.clear();
}

std::shared_ptr<std::byte> BatchPool::acquire() const {
  if (shared_->allocate) return allocated();
  AlignedBuffer buffer;
  {
    MutexLock lock(shared_->mutex);
    if (!shared_->free.empty()) {
      buffer = std::move(shared_->free.back());
      shared_->free.pop_back();
    }
  }
  if (!buffer) {
    buffer = allocate(shared_->buffer_bytes);
    shared_->held.add(shared_->buffer_bytes);
  }
  std::byte* data = buffer.release();
  return {data, [shared = shared_](std::byte* used) { shared->give_back(AlignedBuffer(used)); }};
}

/// Counted as long as the batch has it.
std::shared_ptr<std::byte> BatchPool::allocated() const {
  std::shared_ptr<std::byte> memory = shared_->allocate(shared_->buffer_bytes);
  require(memory && reinterpret_cast<std::uintptr_t>(memory.get()) % kAlignment == 0,
          fmt::format("ResourceOptions::allocate({}) returned {}", shared_->buffer_bytes,
                      memory ? "memory that is not 64-byte aligned" : "no memory"));
  shared_->held.add(shared_->buffer_bytes);
  std::byte* data = memory.get();
  return {data, [shared = shared_, memory = std::move(memory)](std::byte*) mutable {
            memory.reset();
            shared->held.subtract(shared->buffer_bytes);
          }};
}

std::size_t BatchPool::buffer_bytes() const { return shared_->buffer_bytes; }
std::size_t BatchPool::held_bytes() const { return shared_->held.held(); }
std::size_t BatchPool::peak_bytes() const { return shared_->held.peak(); }

}  // namespace millrace::pipeline::detail
