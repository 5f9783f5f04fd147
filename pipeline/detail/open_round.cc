#include "pipeline/detail/open_round.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace millrace::pipeline::detail {

OpenRound::OpenRound(const BatchLayout& layout, std::vector<Batch> batches, const BatchMixer* mixer,
                     Finish finish)
    : layout_(layout),
      mixer_(mixer),
      finish_(finish),
      batches_(std::move(batches)),
      num_held_(num_slots() + 1) {
  const auto rows = static_cast<std::size_t>(layout.batch_size());
  for (Batch& batch : batches_) {
    buffers_.push_back(static_cast<std::byte*>(batch.owner.get()));
    batch.valid.resize(rows);
    batch.keys.resize(rows);
  }
  if (layout.num_ragged() == 0) return;
  ragged_.assign(batches_.size(), {layout.num_ragged(), std::vector<io::Bytes>(rows)});
}

bool OpenRound::close(const Output& output, bool partial,
                      std::shared_ptr<const Position> position) {
  output_ = output;
  is_partial_ = partial;
  batches_.back().position = std::move(position);
  return release(num_slots() - num_assigned_ + 1);
}

void OpenRound::fill(std::int64_t slot, std::string key, std::vector<io::Bytes> ragged) {
  const auto number = static_cast<std::size_t>(slot % num_batches());
  Batch& batch = batches_[number];
  const auto row = static_cast<std::size_t>(slot / num_batches());
  batch.valid[row] = 1;
  batch.keys[row] = std::move(key);
  for (std::size_t field = 0; field < ragged.size(); ++field)
    ragged_[number][field][row] = std::move(ragged[field]);
}

void OpenRound::fault(std::int64_t slot, Error error) {
  MutexLock lock(mutex_);
  faults_.push_back({slot, std::move(error)});
}

bool OpenRound::release(std::int64_t slots) {
  if (num_held_.fetch_sub(slots, std::memory_order_acq_rel) != slots) return false;
  complete();
  return true;
}

void OpenRound::complete() {
  std::sort(faults_.begin(), faults_.end(),
            [](const SlotFault& a, const SlotFault& b) { return a.slot < b.slot; });
  if (finish_ == Finish::kOnceComplete || output_.kind != Output::Kind::kRound) finish();
}

void OpenRound::finish() {
  for (std::int64_t i = 0; i < num_batches(); ++i) {
    Batch& batch = batches_[static_cast<std::size_t>(i)];
    const std::int64_t assigned = rows_in(i, num_assigned_);
    batch.size = is_partial_ ? assigned : layout_.batch_size();
    batch.valid.resize(static_cast<std::size_t>(batch.size));
    batch.keys.resize(static_cast<std::size_t>(batch.size));
    if (assigned == 0) {
      batch.owner.reset();
      continue;
    }
    std::byte* buffer = buffers_[static_cast<std::size_t>(i)];
    batch.fields = layout_.show(buffer, batch.size);
    if (!ragged_.empty())
      batch.ragged = layout_.join(ragged_[static_cast<std::size_t>(i)], batch.size);
    if (output_.kind != Output::Kind::kRound) continue;
    if (mixer_ != nullptr) mixer_->mix(batch);
    repeat_into_masked_slots(batch, buffer);
  }
  ragged_.clear();
}

void OpenRound::take_sample(std::int64_t hole, OpenRound& from, std::int64_t slot) {
  const Place to = place_of(hole);
  const Place source = from.place_of(slot);
  for (std::size_t field = 0; field < layout_.num_fields(); ++field) {
    const auto values = layout_.slot(source.buffer, field, source.row);
    std::memcpy(layout_.slot(to.buffer, field, to.row).data(), values.data(), values.size());
  }
  Batch& mine = batches_[batch_of(hole)];
  Batch& other = from.batches_[from.batch_of(slot)];
  const std::size_t row = row_of(hole);
  const std::size_t other_row = from.row_of(slot);
  mine.valid[row] = std::exchange(other.valid[other_row], std::uint8_t{0});
  mine.keys[row] = std::exchange(other.keys[other_row], {});
  if (ragged_.empty()) return;
  auto& values = ragged_[batch_of(hole)];
  auto& others = from.ragged_[from.batch_of(slot)];
  for (std::size_t field = 0; field < values.size(); ++field)
    values[field][row] = std::exchange(others[field][other_row], {});
}

void OpenRound::drop_samples(std::int64_t first, std::int64_t end) {
  for (std::int64_t slot = first; slot < end; ++slot) {
    Batch& batch = batches_[batch_of(slot)];
    batch.valid[row_of(slot)] = 0;
    batch.keys[row_of(slot)].clear();
    if (ragged_.empty()) continue;
    for (auto& values : ragged_[batch_of(slot)]) values[row_of(slot)] = {};
  }
}

std::int64_t OpenRound::num_samples() const {
  std::int64_t samples = 0;
  for (const Batch& batch : batches_) samples += std::ranges::count(batch.valid, 1);
  return samples;
}

void OpenRound::close_up() {
  std::int64_t used = 0;
  for (std::int64_t slot = 0; slot < num_slots(); ++slot) {
    if (!has_sample(slot)) continue;
    if (slot != used) take_sample(used, *this, slot);
    ++used;
  }
  num_assigned_ = used;
}

Output OpenRound::output() {
  Output output = output_;
  output.round = shared_from_this();
  return output;
}

std::int64_t OpenRound::num_valid() const {
  std::int64_t valid = 0;
  for (const Batch& batch : batches_) valid += batch.num_valid;
  return valid;
}

void OpenRound::copy_row(std::byte* buffer, std::int64_t from, std::int64_t to) const {
  for (std::size_t field = 0; field < layout_.num_fields(); ++field) {
    const auto source = layout_.slot(buffer, field, from);
    std::memcpy(layout_.slot(buffer, field, to).data(), source.data(), source.size());
  }
}

// The n-th masked slot repeats the n-th valid one, cyclically: even weights for batch statistics,
// and the same at any timing.
void OpenRound::repeat_into_masked_slots(Batch& batch, std::byte* buffer) const {
  batch.num_valid = std::count(batch.valid.begin(), batch.valid.end(), 1);
  if (batch.num_valid == batch.size) return;
  if (batch.num_valid == 0) {
    std::memset(buffer, 0, layout_.num_bytes());
    return;
  }
  std::vector<std::int64_t> valid;
  std::vector<std::int64_t> masked;
  for (std::int64_t slot = 0; slot < batch.size; ++slot)
    (batch.valid[static_cast<std::size_t>(slot)] ? valid : masked).push_back(slot);
  for (std::size_t n = 0; n < masked.size(); ++n)
    copy_row(buffer, valid[n % valid.size()], masked[n]);
}

void OpenRound::cut_at_first_fault() {
  const std::int64_t slots = faults_.front().slot;
  for (std::int64_t i = 0; i < num_batches(); ++i) {
    Batch& batch = batches_[static_cast<std::size_t>(i)];
    if (!batch.owner) continue;
    const auto kept = static_cast<std::ptrdiff_t>(rows_in(i, slots));
    std::fill(batch.valid.begin() + kept, batch.valid.end(), std::uint8_t{0});
    std::fill(batch.keys.begin() + kept, batch.keys.end(), std::string{});
    for (RaggedField& field : batch.ragged) field.cut(kept);
    repeat_into_masked_slots(batch, buffers_[static_cast<std::size_t>(i)]);
  }
}

}  // namespace millrace::pipeline::detail
