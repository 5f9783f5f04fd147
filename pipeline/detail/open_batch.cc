#include "pipeline/detail/open_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace millrace::pipeline::detail {

OpenBatch::OpenBatch(const BatchLayout& layout, std::shared_ptr<std::byte> buffer,
                     std::uint32_t epoch, std::int64_t index)
    : layout_(layout), buffer_(buffer.get()), num_held_(layout.batch_size() + 1) {
  const auto slots = static_cast<std::size_t>(layout.batch_size());
  batch_.index = index;
  batch_.epoch = epoch;
  batch_.valid.resize(slots);
  batch_.keys.resize(slots);
  batch_.owner = std::move(buffer);
}

bool OpenBatch::close(const Output& output, std::int64_t size,
                      std::shared_ptr<const Position> position) {
  output_ = output;
  batch_.size = size;
  batch_.position = std::move(position);
  return release(layout_.batch_size() - num_assigned_ + 1);
}

void OpenBatch::fill(std::int64_t slot, std::string key) {
  const auto i = static_cast<std::size_t>(slot);
  batch_.valid[i] = 1;
  batch_.keys[i] = std::move(key);
}

void OpenBatch::fault(std::int64_t slot, Error error) {
  MutexLock lock(mutex_);
  faults_.push_back({slot, std::move(error)});
}

bool OpenBatch::release(std::int64_t slots) {
  if (num_held_.fetch_sub(slots, std::memory_order_acq_rel) != slots) return false;
  complete();
  return true;
}

void OpenBatch::complete() {
  std::sort(faults_.begin(), faults_.end(),
            [](const SlotFault& a, const SlotFault& b) { return a.slot < b.slot; });
  batch_.valid.resize(static_cast<std::size_t>(batch_.size));
  batch_.keys.resize(static_cast<std::size_t>(batch_.size));
  batch_.fields = layout_.show(buffer_, batch_.size);
  if (output_.kind == Output::Kind::kBatch) repeat_into_masked_slots();
}

Output OpenBatch::output() {
  Output output = output_;
  output.batch = shared_from_this();
  return output;
}

void OpenBatch::copy_slot(std::int64_t from, std::int64_t to) const {
  for (std::size_t field = 0; field < layout_.num_fields(); ++field) {
    const auto source = layout_.slot(buffer_, field, from);
    std::memcpy(layout_.slot(buffer_, field, to).data(), source.data(), source.size());
  }
}

// The n-th masked slot repeats the n-th valid one, cyclically: even weights for batch statistics,
// and the same at any timing.
void OpenBatch::repeat_into_masked_slots() {
  batch_.num_valid = std::count(batch_.valid.begin(), batch_.valid.end(), 1);
  if (batch_.num_valid == batch_.size) return;
  if (batch_.num_valid == 0) {
    std::memset(buffer_, 0, layout_.num_bytes());
    return;
  }
  std::int64_t from = -1;
  for (std::int64_t to = 0; to < batch_.size; ++to) {
    if (batch_.valid[static_cast<std::size_t>(to)]) continue;
    do {
      from = (from + 1) % batch_.size;
    } while (!batch_.valid[static_cast<std::size_t>(from)]);
    copy_slot(from, to);
  }
}

void OpenBatch::cut_at_first_fault() {
  const auto first = static_cast<std::ptrdiff_t>(faults_.front().slot);
  std::fill(batch_.valid.begin() + first, batch_.valid.end(), std::uint8_t{0});
  std::fill(batch_.keys.begin() + first, batch_.keys.end(), std::string{});
  repeat_into_masked_slots();
}

}  // namespace millrace::pipeline::detail
