// OpenBatch: a batch while its slots are being filled.
//
// The merge opens it, assigns slots and seals it; decode tasks fill disjoint slots from any
// threads; whoever takes the count of open slots to zero completes it and hands it on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/thread_annotations.h"
#include "pipeline/batch.h"
#include "pipeline/detail/batch_layout.h"
#include "pipeline/detail/messages.h"

namespace millrace::pipeline::detail {

class OpenBatch {
 public:
  struct SlotFault {
    std::int64_t slot;
    Error error;
  };

  /// `layout` is borrowed and outlives the open batch (not the finished one).
  OpenBatch(const BatchLayout& layout, std::shared_ptr<std::byte> buffer, Finished ticket);

  // The merge, one thread at a time.
  std::int64_t num_assigned() const { return num_assigned_; }
  bool full() const { return num_assigned_ == layout_.batch_size(); }
  std::int64_t assign() { return num_assigned_++; }
  void set_position(std::shared_ptr<const Position> position) { position_ = std::move(position); }
  /// No more slots will be assigned; true when all assigned ones are filled already, and the caller
  /// completes the batch.
  [[nodiscard]] bool seal(Finished::Kind kind);

  // Decode tasks, any threads.
  std::uint32_t epoch() const { return ticket_.epoch; }
  std::byte* buffer() const { return buffer_.get(); }
  void fill(std::int64_t slot, std::string key);
  void fault(std::int64_t slot, Error error);
  /// Counts `slots` as done; true when none is left, and the caller completes the batch.
  [[nodiscard]] bool done(std::int64_t slots);

  // Whoever completes it, once.
  /// Lets masked slots repeat valid ones, and gives the ticket that goes on through the graph.
  Finished complete(std::shared_ptr<OpenBatch> self);

  // The end of the graph, once.
  /// In the order of the slots.
  const std::vector<SlotFault>& faults() const { return faults_; }
  std::int64_t num_valid() const { return num_valid_; }
  /// Masks every slot from the first faulty one on; how many were valid before.
  std::int64_t cut_at_first_fault();
  /// `partial`: only the assigned slots.
  Batch finish(bool partial);

 private:
  void repeat_into_masked_slots();
  void copy_slot(std::int64_t from, std::int64_t to) const;

  const BatchLayout& layout_;
  std::shared_ptr<std::byte> buffer_;
  Finished ticket_;
  std::int64_t num_assigned_ = 0;
  std::int64_t num_valid_ = 0;
  std::vector<std::uint8_t> valid_;
  std::vector<std::string> keys_;
  std::shared_ptr<const Position> position_;
  std::atomic<std::int64_t> open_slots_;
  Mutex mutex_;
  std::vector<SlotFault> faults_;  ///< guarded by mutex_ until the batch is complete
};

}  // namespace millrace::pipeline::detail
