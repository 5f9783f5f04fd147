#include "pipeline/detail/open_batch.h"

#include <algorithm>
#include <cstring>

namespace millrace::pipeline::detail {

OpenBatch::OpenBatch(const BatchLayout& layout, std::shared_ptr<std::byte> buffer, Finished ticket)
    : layout_(layout),
      buffer_(std::move(buffer)),
      ticket_(std::move(ticket)),
      valid_(static_cast<std::size_t>(layout.batch_size())),
      keys_(valid_.size()),
      open_slots_(layout.batch_size()) {}

bool OpenBatch::seal(Finished::Kind kind) {
  ticket_.kind = kind;
  const std::int64_t unassigned = layout_.batch_size() - num_assigned_;
  return unassigned > 0 && done(unassigned);
}

void OpenBatch::fill(std::int64_t slot, std::string key) {
  const auto i = static_cast<std::size_t>(slot);
  valid_[i] = 1;
  keys_[i] = std::move(key);
}

void OpenBatch::fault(std::int64_t slot, Error error) {
  MutexLock lock(mutex_);
  faults_.push_back({slot, std::move(error)});
}

bool OpenBatch::done(std::int64_t slots) {
  return open_slots_.fetch_sub(slots, std::memory_order_acq_rel) == slots;
}

Finished OpenBatch::complete(std::shared_ptr<OpenBatch> self) {
  std::sort(faults_.begin(), faults_.end(),
            [](const SlotFault& a, const SlotFault& b) { return a.slot < b.slot; });
  num_valid_ = std::count(valid_.begin(), valid_.end(), 1);
  if (ticket_.kind == Finished::Kind::kBatch) repeat_into_masked_slots();
  Finished finished = ticket_;
  finished.batch = std::move(self);
  return finished;
}

void OpenBatch::copy_slot(std::int64_t from, std::int64_t to) const {
  for (std::size_t field = 0; field < layout_.num_fields(); ++field) {
    const auto source = layout_.slot(buffer_.get(), field, from);
    std::memcpy(layout_.slot(buffer_.get(), field, to).data(), source.data(), source.size());
  }
}

// The n-th masked slot repeats the n-th valid one, round and round: even weights for batch
// statistics, and the same at any timing.
void OpenBatch::repeat_into_masked_slots() {
  const std::int64_t size = layout_.batch_size();
  if (num_valid_ == size) return;
  if (num_valid_ == 0) {
    std::memset(buffer_.get(), 0, layout_.num_bytes());
    return;
  }
  std::int64_t from = -1;
  for (std::int64_t to = 0; to < size; ++to) {
    if (valid_[static_cast<std::size_t>(to)]) continue;
    do {
      from = (from + 1) % size;
    } while (!valid_[static_cast<std::size_t>(from)]);
    copy_slot(from, to);
  }
}

std::int64_t OpenBatch::cut_at_first_fault() {
  const auto first = static_cast<std::size_t>(faults_.front().slot);
  std::fill(valid_.begin() + static_cast<std::ptrdiff_t>(first), valid_.end(), std::uint8_t{0});
  std::fill(keys_.begin() + static_cast<std::ptrdiff_t>(first), keys_.end(), std::string{});
  num_valid_ = std::count(valid_.begin(), valid_.end(), 1);
  repeat_into_masked_slots();
  return num_valid_;
}

Batch OpenBatch::finish(bool partial) {
  Batch batch;
  batch.index = ticket_.index;
  batch.epoch = ticket_.epoch;
  batch.size = partial ? num_assigned_ : layout_.batch_size();
  batch.num_valid = num_valid_;
  batch.valid = std::move(valid_);
  batch.keys = std::move(keys_);
  batch.valid.resize(static_cast<std::size_t>(batch.size));
  batch.keys.resize(static_cast<std::size_t>(batch.size));
  batch.fields = layout_.show(buffer_.get(), batch.size);
  batch.position = std::move(position_);
  batch.owner = std::move(buffer_);
  return batch;
}

}  // namespace millrace::pipeline::detail
