// Loader: a pipeline that a loop of Python iterates, epoch by epoch, and that starts late.
//
// Nothing is read and no thread started before the first next() (or length()). Where it stands
// follows the batches that were handed out, never what was read ahead.
//
//   Loader loader(options, form, allocate);
//   const auto turn = loader.begin();
//   while (auto batch = loader.next(turn, topology)) ...      // one epoch
//
// Which of how many processes this is may be known late. So it is said with each batch: a pass
// keeps what it began with, and nothing that is known of the loader before depends on it.
//
// Waiting releases the GIL, in slices between which signals are looked at. A signal's exception
// leaves the loader where it was.
//
// Threads: with the GIL (in a Python without one, the object's lock), from any thread; a second
// next() while one waits is refused.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/trace.h"
#include "pipeline/pipeline.h"
#include "python/batch_arrays.h"
#include "python/buffer_stock.h"
#include "python/log_lines.h"
#include "python/options.h"

namespace millrace::python {

class Loader {
 public:
  /// A batch's arrays, and the object of `allocate` that they lie in, or None.
  using Handed = std::pair<nanobind::dict, nanobind::object>;

  /// `allocate`: for a BufferStock; None: batches lie in memory of the pipeline's own.
  Loader(PipelineArguments options, BatchForm form, nanobind::object allocate);
  /// Ends the threads, releasing the GIL; nothing in a forked child.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins a pass over epoch() and returns its number, for next(). After load() it begins where
  /// the state stands; an epoch that was left before its last batch is begun again.
  std::uint64_t begin();
  /// The next batch; nullopt at the end of the epoch. Until it is claimed the loader stands before
  /// it, and returns it again. Throws: as Pipeline::next() and BufferStock::fill();
  /// std::runtime_error if `pass` is not the last one begun, if it has read as another process than
  /// `topology` says, in a forked child, and if close() comes while it waits.
  std::optional<Handed> next(std::uint64_t pass, const Topology& topology);
  /// The last batch has reached whoever asked for it: neither a signal nor a failed conversion can
  /// lose it any more.
  void claim(std::uint64_t pass);

  /// After the last batch handed out, as JSON.
  std::string state();
  /// Continues where a loader of the same options stood: with this rank's state, or with those of
  /// all ranks, in their order, of any other number of ranks. Throws: Corrupt, InvalidArgument.
  void load(const std::vector<std::string>& states);

  /// The epoch that the next batch belongs to.
  std::uint32_t epoch() const;
  /// Moves to the beginning of `epoch`, unless the loader stands in it.
  void set_epoch(std::uint32_t epoch);
  /// Batches of this rank in a whole epoch; nullopt where it is not known before it is read.
  std::optional<std::int64_t> length(const Topology& topology);
  /// Whether the epoch's last batch was handed out, where their number is known. Who counts batches
  /// does not ask for the end behind it.
  bool is_over() const;
  /// Slots of an epoch, over all ranks, that no sample fills; nullopt where it is not known.
  std::optional<std::int64_t> masked_slots(const Topology& topology);
  pipeline::Statistics statistics() const;
  /// Of the epoch of the last batch (or epoch end) handed out; an empty one before.
  std::shared_ptr<const wds::FaultLedger> ledger() const;
  /// What runs the functions of samples, which the caller starts before begin(); null: there are
  /// none.
  std::shared_ptr<FunctionPool> functions() const { return functions_; }
  /// Ends the threads, and a next() that waits in another one. The next begin() starts again where
  /// the loader stands. Throws: std::runtime_error if another thread uses it for 10 s.
  void close();

  /// Records what the threads do, `most_events` spans and counters at most, until end_trace(): at
  /// both the threads end, and the next batch starts them again where the loader stands. Throws:
  /// std::runtime_error if a trace is being recorded.
  void begin_trace(std::size_t most_events);
  /// Writes what was recorded, in Chrome's trace format (io/trace_file.h), to the file at `path`,
  /// packed if its name ends in .gz. Throws: NotFound, Io; std::runtime_error if nothing is being
  /// recorded.
  void end_trace(const std::string& path);

 private:
  class Turn;
  struct Unclaimed {
    Handed handed;
    pipeline::Position before;
  };

  struct Behind {
    pipeline::Position position;
    bool is_last = false;  ///< of its epoch
  };

  /// From now on this is that process of those. Requires: no batch of an unfinished pass was handed
  /// out.
  void stand_as(const Topology& topology);
  void begin_again();
  void prepare();
  void start();
  void wait();
  bool fetch(pipeline::Batch& batch);
  void check_functions();
  bool is_closing() const { return closing_ || closes_itself_; }
  void attach_functions(pipeline::PipelineOptions& options) const;
  /// Requires, as the next: prepare().
  std::optional<std::int64_t> count_batches(const Topology& topology) const;
  void check_length() const;
  /// With the streams of the state, or those of the options.
  pipeline::PipelineOptions options_as(const Topology& topology) const;
  pipeline::Position position() const;
  void stand_at(pipeline::Position position);
  /// Runs `work` on a thread of its own, and waits for it.
  void run(const std::function<void()>& work);
  void end();

  const PipelineArguments options_;
  const BatchForm form_;
  Topology topology_;
  LogLines lines_;
  std::unique_ptr<Tracer> tracer_;  ///< of the pipeline's; null: nothing is recorded
  std::optional<BufferStock> stock_;
  std::shared_ptr<FunctionPool> functions_;
  std::stop_source stop_;
  std::optional<pipeline::PipelineOptions> prepared_;
  std::shared_ptr<decode::DecodedCache> decoded_;  ///< made when it starts, and kept
  std::shared_ptr<pipeline::Pipeline> pipeline_;
  pipeline::Position position_;          ///< while there is no pipeline
  std::optional<std::int64_t> batches_;  ///< of the pipeline's epochs, where it is known
  int saved_streams_ = 0;                ///< of the pipeline, or as the next
  int loaded_streams_ = 0;               ///< of the state that was loaded; 0: none
  pipeline::Position loaded_;            ///< that state
  std::optional<Unclaimed> unclaimed_;   ///< the last batch
  /// Behind the batch that was unclaimed when the pipeline ended: it may yet be claimed.
  std::optional<Behind> behind_unclaimed_;
  bool has_read_all_ = false;  ///< the pass's last batch was claimed, and the pipeline ended
  pipeline::Statistics last_statistics_;  ///< of the last pipeline that ended
  std::shared_ptr<const wds::FaultLedger> last_ledger_;
  bool begun_ = false;   ///< a batch was claimed since begin() or load()
  int times_left_ = 0;   ///< epochs that were left before their last batch
  bool failed_ = false;  ///< the pipeline has ended with a fault
  std::uint64_t pass_ = 0;
  std::atomic<bool> busy_{false};
  std::atomic<std::thread::id> user_;  ///< while busy
  std::atomic<bool> closing_{false};   ///< by another thread
  bool closes_itself_ = false;         ///< by the user
};

}  // namespace millrace::python
