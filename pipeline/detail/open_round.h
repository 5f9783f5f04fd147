// OpenRound: a round of batches, one for each device, while its slots are being filled.
//
// Its slots go to the batches in turn: slot j is slot j div n of batch j mod n. The merge opens it,
// assigns its slots and closes it; decode tasks fill disjoint slots from any threads and release
// them. The caller of the last release() or close() sends the round on.
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
#include "pipeline/detail/batch_mixer.h"
#include "pipeline/detail/messages.h"

namespace millrace::pipeline::detail {

class OpenRound : public std::enable_shared_from_this<OpenRound> {
 public:
  struct SlotFault {
    std::int64_t slot;
    Error error;
  };
  /// Where a slot's values are.
  struct Place {
    std::byte* buffer;
    std::int64_t row;
  };
  /// When finish() is called.
  enum class Finish { kOnceComplete, kByCaller };

  /// `batches` own their buffers, and have what does not depend on their samples. `layout` is
  /// borrowed and must outlive the round, but not the batches from take(). So is `mixer`, which
  /// mixes the batches once their samples are there; null: nothing does.
  OpenRound(const BatchLayout& layout, std::vector<Batch> batches,
            const BatchMixer* mixer = nullptr, Finish finish = Finish::kOnceComplete);

  // The merge, one thread at a time.
  std::int64_t num_batches() const { return static_cast<std::int64_t>(batches_.size()); }
  std::int64_t num_slots() const { return num_batches() * layout_.batch_size(); }
  std::int64_t num_assigned() const { return num_assigned_; }
  bool is_full() const { return num_assigned_ == num_slots(); }
  std::int64_t assign() { return num_assigned_++; }
  /// No more slots will be assigned; with `partial` the batches end with their last assigned ones.
  /// `output` is what output() returns, but for the round; `position` the one after the last batch.
  /// Returns as release().
  [[nodiscard]] bool close(const Output& output, bool partial,
                           std::shared_ptr<const Position> position);

  // Decode tasks, any threads.
  Place place_of(std::int64_t slot) const {
    return {buffers_[static_cast<std::size_t>(slot % num_batches())], slot / num_batches()};
  }
  /// `ragged` are the sample's values of the layout's ragged fields.
  void fill(std::int64_t slot, std::string key, std::vector<io::Bytes> ragged = {});
  void fault(std::int64_t slot, Error error);

  /// Counts `slots` as filled or faulty. Returns true if none is left and the round is closed: it
  /// is complete then, finished unless its caller does that, and the caller sends output() on.
  [[nodiscard]] bool release(std::int64_t slots);

  // Once complete, one thread at a time.
  Output output();
  /// In the order of the slots.
  const std::vector<SlotFault>& faults() const { return faults_; }
  /// One to which no slot was assigned has neither fields nor an owner.
  const std::vector<Batch>& batches() const { return batches_; }
  std::int64_t num_valid() const;
  std::vector<Batch>& batches() { return batches_; }
  /// Before it is finished: whether a slot has a sample.
  bool has_sample(std::int64_t slot) const {
    return batches_[batch_of(slot)].valid[row_of(slot)] != 0;
  }
  /// Gives the sample of a slot of `from`, which may be this round, to one without.
  void take_sample(std::int64_t hole, OpenRound& from, std::int64_t slot);
  /// Empties slots.
  void drop_samples(std::int64_t first, std::int64_t end);
  /// Moves the samples together, in their order: the slots without one are the last.
  void close_up();
  /// Of all batches, before it is finished.
  std::int64_t num_samples() const;
  /// Mixes the batches, and lets masked slots repeat valid ones.
  void finish();
  /// Masks every slot from the first faulty one on.
  void cut_at_first_fault();
  /// Moves the batches out: the last call.
  std::vector<Batch> take() { return std::move(batches_); }

 private:
  std::size_t batch_of(std::int64_t slot) const {
    return static_cast<std::size_t>(slot % num_batches());
  }
  std::size_t row_of(std::int64_t slot) const {
    return static_cast<std::size_t>(slot / num_batches());
  }
  /// How many of the round's first `slots` ones are in a batch.
  std::int64_t rows_in(std::int64_t batch, std::int64_t slots) const {
    return (slots - batch + num_batches() - 1) / num_batches();
  }
  void complete();
  void repeat_into_masked_slots(Batch& batch, std::byte* buffer) const;
  void copy_row(std::byte* buffer, std::int64_t from, std::int64_t to) const;

  const BatchLayout& layout_;
  const BatchMixer* mixer_;
  const Finish finish_;
  std::vector<Batch> batches_;
  std::vector<std::byte*> buffers_;
  /// By batch, ragged field and row, until the round is finished.
  std::vector<std::vector<std::vector<io::Bytes>>> ragged_;
  Output output_;
  bool is_partial_ = false;
  std::int64_t num_assigned_ = 0;
  /// Slots that are neither filled nor faulty, and one more until the round is closed.
  std::atomic<std::int64_t> num_held_;
  Mutex mutex_;
  std::vector<SlotFault> faults_;  ///< guarded by mutex_ until the round is complete
};

}  // namespace millrace::pipeline::detail
