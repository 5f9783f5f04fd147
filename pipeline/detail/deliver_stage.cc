#include "pipeline/detail/deliver_stage.h"

#include <utility>

#include "pipeline/detail/open_batch.h"

namespace millrace::pipeline::detail {
namespace {

bool is_cancelled(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.code() == ErrorCode::kCancelled;
  } catch (...) {
    return false;
  }
}

}  // namespace

void DeliverStage::deliver(Finished finished) {
  const Stopwatch busy(meters_.deliver.busy_ns);
  if (over_) return count_later_faults(finished);
  switch (finished.kind) {
    case Finished::Kind::kBatch:
      return deliver_batch(finished);
    case Finished::Kind::kDropped:
      return callbacks_.dropped();
    case Finished::Kind::kMasked:
      return push_masked(finished, finished.repeat);
    case Finished::Kind::kFault:
      return fail(std::move(finished.error));
    case Finished::Kind::kEpochEnd:
      stopped_epoch_.reset();
      return output_.push({.kind = Output::Kind::kEpochEnd, .epoch = finished.epoch});
  }
}

void DeliverStage::deliver_batch(Finished& finished) {
  if (stopped_epoch_ == finished.epoch) return drop_batch(finished);
  OpenBatch& open = *finished.batch;
  try {
    report_faults(open, finished.epoch);
  } catch (...) {
    return fail(std::current_exception());
  }
  if (stopped_epoch_ && open.num_valid() == 0) return drop_batch(finished);
  const std::int64_t valid = open.num_valid();
  ledgers_.of(finished.epoch)->count_emitted(static_cast<std::uint64_t>(valid));
  Batch batch = open.finish(options_.batch.partial);
  std::size_t bytes = 0;
  for (const BatchField& field : batch.fields) bytes += field.data.size();
  meters_.deliver.count(static_cast<std::size_t>(valid), bytes);
  output_.push({.kind = Output::Kind::kBatch, .epoch = finished.epoch, .batch = std::move(batch)});
}

/// After the fault that stopped the epoch. A promised number of batches is kept all the same.
void DeliverStage::drop_batch(const Finished& finished) {
  if (options_.epochs.batches > 0) push_masked(finished, 1);
  callbacks_.dropped();
}

void DeliverStage::report_faults(OpenBatch& batch, std::uint32_t epoch) {
  if (batch.faults().empty()) return;
  const auto ledger = ledgers_.of(epoch);
  for (const OpenBatch::SlotFault& fault : batch.faults()) {
    if (ledger->report(fault.error) != wds::OnFault::kStop) continue;
    stopped_epoch_ = epoch;
    batch.cut_at_first_fault();
    return callbacks_.cut(epoch);
  }
}

void DeliverStage::push_masked(const Finished& finished, std::int64_t repeat) {
  output_.push({.kind = Output::Kind::kMasked,
                .epoch = finished.epoch,
                .index = finished.index,
                .repeat = repeat});
}

void DeliverStage::fail(std::exception_ptr error) {
  over_ = true;
  output_.push({.kind = Output::Kind::kFault, .error = std::move(error)});
  callbacks_.failed();
}

void DeliverStage::count_later_faults(const Finished& finished) {
  if (finished.batch) meters_.later_faults += finished.batch->faults().size();
  if (finished.error && !is_cancelled(finished.error)) ++meters_.later_faults;
}

}  // namespace millrace::pipeline::detail
