// OpenBatch: a batch while its slots are being filled.
//
// The merge opens it, assigns its slots and closes it; decode tasks fill disjoint slots from any
// threads and release them. The caller of the last release() or close() sends the batch on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/thread_annotations.h"
#include "pipeline/batch.h"
#include "pipeline/detail/batch_buffers.h"
#include "pipeline/detail/messages.h"

namespace millrace::pipeline::detail {

class OpenBatch : public std::enable_shared_from_this<OpenBatch> {
 public:
  struct SlotFault {
    std::int64_t slot;
    Error error;
  };
  /// `layout` is borrowed and must outlive the open batch, but not the batch from take().
  OpenBatch(const BatchLayout& layout, std::shared_ptr<std::byte> buffer, std::uint32_t epoch,
            std::int64_t index);

  // The merge, one thread at a time.
  std::int64_t num_assigned() const { return num_assigned_; }
  bool is_full() const { return num_assigned_ == layout_.batch_size(); }
  std::int64_t assign() { return num_assigned_++; }
  /// No more slots will be assigned; the batch has the first `size` ones. `output` is what output()
  /// returns, but for the batch. Returns as release().
  [[nodiscard]] bool close(const Output& output, std::int64_t size,
                           std::shared_ptr<const Position> position);

  // Decode tasks, any threads.
  std::byte* buffer() const { return buffer_; }
  void fill(std::int64_t slot, std::string key);
  void fault(std::int64_t slot, Error error);

  /// Counts `slots` as filled or faulty. Returns true if none is left and the batch is closed: it
  /// is complete then, its masked slots repeat valid ones, and the caller sends output() on.
  [[nodiscard]] bool release(std::int64_t slots);

  // Once complete, one thread at a time.
  Output output();
  /// In the order of the slots.
  const std::vector<SlotFault>& faults() const { return faults_; }
  const Batch& batch() const { return batch_; }
  /// Masks every slot from the first faulty one on.
  void cut_at_first_fault();
  /// Moves the batch out: the last call.
  Batch take() { return std::move(batch_); }

 private:
  void complete();
  void repeat_into_masked_slots();
  void copy_slot(std::int64_t from, std::int64_t to) const;

  const BatchLayout& layout_;
  std::byte* const buffer_;
  Batch batch_;
  Output output_;
  std::int64_t num_assigned_ = 0;
  /// Slots that are neither filled nor faulty, and one more until the batch is closed.
  std::atomic<std::int64_t> num_held_;
  Mutex mutex_;
  std::vector<SlotFault> faults_;  ///< guarded by mutex_ until the batch is complete
};

}  // namespace millrace::pipeline::detail
