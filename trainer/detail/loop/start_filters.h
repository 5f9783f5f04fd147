// StartFilters: a replica's part of what start values take from the data, the filters of whitening
// layers (trainer/nn/whitening.h).
//
// Some layers take them from the first batches of the run's first step, others from a number of the
// first epoch's slots, which a pass before that step reads. Both are the same pictures on any
// number of devices and processes.
//
//   StartFilters filters(replica, StartFilters::From::kFirstStep);
//   filters.add(batch, slot_numbers(batch, batch_size, topology));
//   filters.write();
//
// Threads: the replica's own; write() is a collective of all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/batch.h"
#include "trainer/detail/loop/replica.h"
#include "trainer/nn/whitening.h"

namespace millrace::trainer::detail {

/// The most slots that a layer takes its filters from before the first step; 0: none does.
std::int64_t start_slots(const Model& model);

class StartFilters {
 public:
  enum class From { kFirstStep, kSlots };

  /// `replica` is borrowed.
  StartFilters(Replica& replica, From from);

  /// The valid slots of one of the replica's batches. Throws: Unsupported for pictures that are no
  /// floats in the host's memory.
  void add(const pipeline::Batch& batch, const pipeline::SlotNumbers& slots);
  /// Of the pictures of all replicas. Throws: NotFound without one.
  void write();

 private:
  struct Layer {
    nn::WhiteningLayer layer;
    nn::PatchMoments moments;
  };

  Replica& replica_;
  std::vector<Layer> layers_;
};

}  // namespace millrace::trainer::detail
