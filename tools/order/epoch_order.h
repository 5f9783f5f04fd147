// EpochOrder: an epoch's slots in order, each with the sample that a run of the same options puts
// there, or masked.
//
// A slot belongs to the process and device that pipeline::owner_of_slot() says. With a batch size
// the epoch ends as pipeline::Uneven says: the slots that pad its last step are masked, or the step
// is left out.
// Unless faults are skipped, only the index is read of a shard that has one, and its samples have
// no fields.
//
//   EpochOrder order(options, place, ledger, stop);
//   for (auto slots = order.next(); !slots.empty(); slots = order.next()) print(slots);
//
// Buffers: a few thousand slots and their samples, at least one step. Threads: one at a time; it
// reads streams on the threads of its arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "pipeline/options.h"
#include "pipeline/sample_source.h"
#include "tools/task_arena.h"
#include "wds/fault_ledger.h"
#include "wds/sample_stream.h"

namespace millrace::tools {

struct OrderedSlot {
  std::uint64_t slot = 0;
  std::int64_t step = 0;  ///< from 1, as the log of `train` counts; 0 without a batch size
  int stream = 0;
  const wds::Sample* sample = nullptr;  ///< null: masked
};

class EpochOrder {
 public:
  struct Place {
    std::uint32_t epoch = 0;
    /// Only this process's slots. Default: all.
    std::optional<int> process = {};
    /// Slots wanted, 0: all; little more than that is read.
    std::uint64_t limit = 0;
    int threads = 0;  ///< 0: one per core
  };

  /// `options` as with_counts() gave them; a batch size of 0 has neither steps nor masked slots.
  /// `ledger` is borrowed. Throws: InvalidArgument, as pipeline::check_even().
  EpochOrder(const pipeline::PipelineOptions& options, const Place& place, wds::FaultLedger& ledger,
             const std::stop_token& stop);

  /// The threads on which streams are read: for work on what next() gave, too.
  TaskArena& arena() { return arena_; }
  /// The next slots; none at the end. Lifetime: until the next call. Throws: as SampleStream; as
  /// pipeline::wrong_samples() for an epoch with other samples than a run is promised.
  std::span<const OrderedSlot> next();

 private:
  /// A stream's samples, read ahead.
  struct Stream {
    int number = 0;
    std::unique_ptr<pipeline::SampleSource::Stream> samples = {};
    std::vector<wds::SampleBlock> blocks = {};
    std::size_t block = 0;    ///< of the next sample
    std::size_t used = 0;     ///< in that block
    std::size_t ready = 0;    ///< samples from there on
    std::uint64_t found = 0;  ///< read so far
    bool ended = false;       ///< nothing more will be read
  };
  struct Process {
    int process = 0;
    std::vector<Stream> streams = {};
    std::size_t turn = 0;
    std::vector<std::int64_t> last_steps = {};  ///< of each device, in which it has a sample
  };

  void open(wds::FaultLedger& ledger, const std::stop_token& stop);
  void forget_used();
  void refill();
  bool add_row();
  bool add_slot(Process& process, std::int64_t place);
  const wds::Sample* take(Process& process, int& number);
  void keep_own();
  void check_number();
  std::optional<std::int64_t> promised_samples() const;

  const pipeline::PipelineOptions options_;
  const Place place_;
  const int stripe_;                  ///< slots that a process has in a row
  std::int64_t rows_of_step_ = 0;     ///< 0: no steps
  std::optional<std::int64_t> rows_;  ///< of the epoch, where known
  std::size_t rows_at_once_ = 0;
  TaskArena arena_;
  const std::shared_ptr<const pipeline::SampleSource> source_;
  std::vector<Process> processes_;
  std::vector<OrderedSlot> slots_;
  std::size_t step_begin_ = 0;  ///< of the current step, in slots_
  bool step_is_short_ = false;  ///< it has a masked slot
  std::int64_t row_ = 0;
  bool ended_ = false;
};

}  // namespace millrace::tools
