#include "pipeline/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "decode/decoded_cache.h"
#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/machine.h"
#include "io/base/text.h"
#include "io/base/thread_annotations.h"
#include "pipeline/data_identity.h"
#include "pipeline/detail/batch_buffers.h"
#include "pipeline/detail/graph.h"
#include "pipeline/detail/open_round.h"
#include "pipeline/detail/resolve.h"
#include "pipeline/detail/tuner.h"
#include "pipeline/epoch_length.h"
#include "pipeline/slots.h"
#include "wds/sample_selection.h"
#include "wds/split.h"

namespace millrace::pipeline {

using detail::Output;
using Seconds = std::chrono::duration<double>;

namespace {

/// The time that a changing number of threads had.
struct ThreadTime {
  int threads = 1;
  std::int64_t since = 0;   ///< there are so many
  std::int64_t before = 0;  ///< of all of them until then

  void change(int number, std::int64_t first, std::int64_t now) {
    before = total(first, now);
    since = now;
    threads = number;
  }
  /// From `first` on.
  std::int64_t total(std::int64_t first, std::int64_t now) const {
    return before + threads * (now - std::max(since, first));
  }
};

}  // namespace

/// The parts of a Pipeline, the graph that joins them, and the consumer's side of the output.
/// Threads: next() from one at a time, stop() and const members from any.
struct Pipeline::State {
  explicit State(PipelineOptions given);

  bool next(Batch& batch);
  bool wait_for(std::chrono::nanoseconds timeout);
  void stop();
  bool is_finished() const;
  Batch masked_batch(int device) const;
  Position position() const;
  Position position_to_save() const;
  std::shared_ptr<const wds::FaultLedger> ledger() const;
  Statistics statistics() const;

  const PipelineOptions options;
  const std::shared_ptr<decode::PictureMeter> pictures;
  const detail::FieldDecoders decoders;
  const detail::RaggedDecoders ragged;
  const detail::BatchMixer mixer;
  const detail::BatchLayout layout;
  const detail::MemoryShares plan;
  const std::vector<BatchField> fields;
  detail::LedgerBook ledgers;
  const std::shared_ptr<const SampleSource> source;
  detail::BatchPool pool;
  detail::OutputQueue output;
  detail::Meters meters;
  detail::ByteGauge encoded;

  std::atomic<std::int64_t> first_next_ns{0};
  std::atomic<std::int64_t> wait_ns{0};
  std::atomic<std::uint64_t> num_batches{0};
  std::atomic<std::uint64_t> num_samples{0};
  std::atomic<std::uint64_t> num_masked{0};

  std::optional<detail::Graph> graph;
  /// Last, so that it goes first: no callback runs on a graph that is being destroyed.
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
  std::optional<TraceGauges> gauges;  ///< likewise

 private:
  /// Where the consumer stands.
  struct Consumer {
    std::vector<Batch> last;  ///< of each device
    Position position;
    std::shared_ptr<const wds::FaultLedger> ledger;
    std::uint32_t ledger_epoch = 0;
    bool finished = false;
  };

  std::vector<TraceGauge> trace_gauges();
  Position first_position() const;
  void check_contents(const Position& start) const;
  const Position::Contents& contents() const;
  bool fetch(Batch& batch);
  bool fetch_output(Batch& batch);
  void log_restore() const;
  void hand_out(Batch& batch, Batch next);
  void hand_out_next(Batch& batch);
  void hand_out_masked(Batch& batch);
  Batch masked_in_place_of(const Batch& head) const;
  std::size_t device_of(const Batch& batch) const;
  void end_epoch(std::uint32_t epoch);
  void check_epoch(std::uint32_t epoch);
  std::uint32_t ledger_epoch() const;
  Batch copy_of_fields(const Batch& last) const;
  void tune(std::int64_t now);
  void apply(const detail::TuneSettings& settings);
  Tuning tuning() const MILLRACE_REQUIRES(mutex_);
  DecodedPictures decoded_pictures() const;
  bool is_last(std::uint32_t epoch) const;
  void advise_cache(std::uint32_t epoch);
  detail::TuneMeters meters_until(std::int64_t now) const;

  mutable std::once_flag contents_known_;
  mutable Position::Contents contents_;  ///< once asked for

  // Used by next() only.
  std::exception_ptr fault_;
  bool has_advised_ = false;
  std::uint64_t epoch_samples_ = 0;  ///< valid slots of the epoch so far
  detail::TuneMeters tuned_;         ///< all that there was when the tuner last looked
  std::int64_t tune_at_ns_ = 0;      ///< when it looks again
  std::vector<Batch> round_;         ///< of which the first `handed_out_` are gone
  std::size_t handed_out_ = 0;
  std::size_t to_skip_ = 0;               ///< of the first round: handed out before a resume
  std::optional<detail::Output> masked_;  ///< fully masked batches still to be handed out
  mutable Mutex mutex_;
  Consumer consumer_ MILLRACE_GUARDED_BY(mutex_);
  detail::Tuner tuner_ MILLRACE_GUARDED_BY(mutex_);
  ThreadTime read_threads_ MILLRACE_GUARDED_BY(mutex_);
  ThreadTime decode_threads_ MILLRACE_GUARDED_BY(mutex_);
};

namespace {

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

StageStatistics stage_statistics(std::string name, const detail::StageMeter& meter, int threads,
                                 std::chrono::nanoseconds time) {
  const std::chrono::nanoseconds busy(meter.busy_ns);
  return {.name = std::move(name),
          .items = meter.items,
          .bytes = meter.bytes,
          .busy = busy,
          .waiting = std::max(std::chrono::nanoseconds(0), time - busy),
          .threads = threads};
}

/// Whether the epoch has no batch left. The slots of its last ones, which need not be full, divide
/// only into batches of the size that they had.
bool is_over(const Position& position, const PipelineOptions& options) {
  const EpochOptions& epochs = options.epochs;
  return position.all_ended() ||
         (epochs.batches > 0 && position.slots / options.batch.size >= epochs.batches);
}

/// The devices get batches a round at a time.
template <typename Refuse>
void check_rounds(const Position& position, const PipelineOptions& options, const Refuse& refuse) {
  const std::int64_t devices = options.split.topology.devices;
  const Position::Round& round = position.round;
  if (round.taken > 0 && (round.devices != devices || round.batch_size != options.batch.size)) {
    refuse(fmt::format("it stands after batch {} of a round of {} of size {}; {} of size {} given",
                       round.taken, round.devices, round.batch_size, devices, options.batch.size));
  }
  for (const Position::Fill& fill : position.fills) {
    if (!options.batch.fill)
      refuse("its batches took samples of those behind them, which only `fill` continues");
    if (fill.devices != devices || fill.batch_size != options.batch.size)
      refuse(
          fmt::format("its batches took samples of those behind them on {} with batches of {}; {} "
                      "with batches of {} given",
                      counted(static_cast<std::uint64_t>(fill.devices), "device"), fill.batch_size,
                      devices, options.batch.size));
  }
  if (is_over(position, options)) return;
  if (position.slots % options.batch.size != 0)
    refuse(fmt::format("{} slots used do not divide into batches of {}", position.slots,
                       options.batch.size));
  if (position.slots / options.batch.size % devices != 0) {
    refuse(fmt::format("{} slots used do not divide into rounds of {} batches of {}",
                       position.slots, devices, options.batch.size));
  }
}

/// What the order was saved with and what is given.
std::string order_difference(const Position& position, const PipelineOptions& options) {
  std::vector<std::string> lines;
  if (position.order)
    lines = option_differences({.options = *position.order},
                               {.options = *detail::order_facts(options)});
  if (lines.empty())
    return "shards, their indexes, streams, shuffle, seed or the epoch's length differ";
  return fmt::format("{}", fmt::join(lines, "; "));
}

[[noreturn]] void refuse_position(const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, "the saved position does not fit this pipeline: " + why);
}

void check_position(const Position& position, const PipelineOptions& options) {
  const auto refuse = refuse_position;
  const EpochOptions& epochs = options.epochs;
  if (epochs.count != 0 && position.epoch >= epochs.first + epochs.count) {
    refuse(fmt::format("it is in epoch {}, after the last one", position.epoch));
  }
  if (position.streams.empty()) return;
  if (const std::size_t own = detail::owned_streams(options).size();
      position.streams.size() != own) {
    refuse(fmt::format("{} streams saved, {} given", position.streams.size(), own));
  }
  // Earlier versions kept what could not be looked at.
  const bool had_all = !options.found.selection || options.found.selection->damaged().empty();
  if (position.fingerprint != detail::order_fingerprint(options) &&
      !(had_all && position.fingerprint == detail::unselected_fingerprint(options))) {
    if (position.fingerprint == detail::earlier_fingerprint(options)) {
      refuse(
          "it is of a version that gave each stream the same samples in every pass; in this one "
          "each pass goes on where the one before ended, so only the next epoch can begin");
    }
    refuse(order_difference(position, options));
  }
  check_rounds(position, options, refuse);
}

/// Counted by the process that has the first stream.
std::uint64_t own_filtered(const PipelineOptions& options) {
  return detail::owned_streams(options).front() == 0 ? filtered_per_epoch(options) : 0;
}

/// A run that goes on with another number of processes keeps its streams' seeds.
PipelineOptions with_seeds(PipelineOptions options) {
  int& seeded_for = options.shuffle.seed_processes;
  if (seeded_for == 0 && options.resume) seeded_for = options.resume->seed_processes;
  return options;
}

/// This process's own: a joined position holds all streams.
Position own_share(const Position& position, const PipelineOptions& options) {
  const Topology& topology = options.split.topology;
  const auto streams = static_cast<std::size_t>(options.split.streams);
  if (position.processes == 1 && !position.streams.empty() && position.streams.size() != streams) {
    refuse_position(fmt::format("{} streams saved, {} given", position.streams.size(), streams));
  }
  try {
    return position.share(topology, wds::stream_stripe(options.split));
  } catch (const Error& error) {
    refuse_position(error.message());
  }
}

}  // namespace

Pipeline::State::State(PipelineOptions given)
    : options(detail::resolve_options(with_seeds(std::move(given)))),
      pictures(std::make_shared<decode::PictureMeter>()),
      decoders(detail::compile_fields(options.fields,
                                      {.cache = options.resources.decoded, .meter = pictures})),
      ragged(detail::compile_ragged(options.fields)),
      mixer(options, decoders),
      layout(decoders, options.batch.size, ragged, mixer.outputs()),
      plan(detail::share_memory(options, layout)),
      fields(layout.show(nullptr, options.batch.size)),
      ledgers(options.faults, options.log, own_filtered(options)),
      source(source_of(options)),
      pool(layout.num_bytes(), static_cast<std::size_t>(plan.num_batches),
           options.resources.allocate),
      tuner_(plan.first, plan.most),
      read_threads_{.threads = plan.first.readers},
      decode_threads_{.threads = plan.first.decode_threads} {
  meters.trace = options.trace;
  const Position start = first_position();
  check_position(start, options);
  check_contents(start);
  if (!is_over(start, options)) to_skip_ = static_cast<std::size_t>(start.round.taken);
  ledgers.begin_at(start);
  consumer_.last.resize(static_cast<std::size_t>(options.split.topology.devices));
  consumer_.position = start;
  consumer_.ledger = ledgers.of(start.epoch);
  consumer_.ledger_epoch = start.epoch;
  graph.emplace(detail::GraphParts{options, plan, decoders, ragged, layout, mixer, *source, pool,
                                   ledgers, output, meters, encoded},
                start);
  on_stop.emplace(options.stop, [this] { stop(); });
  gauges.emplace(options.trace, trace_gauges());
}

/// What of the pipeline is worth a curve.
std::vector<TraceGauge> Pipeline::State::trace_gauges() {
  constexpr double kPerMega = 1e-6;
  const auto rate = [](const std::atomic<std::uint64_t>& total, double unit) {
    return growth_per_second([&total, unit] { return unit * static_cast<double>(total); });
  };
  return {{"read MB/s", rate(meters.read.bytes, kPerMega)},
          {"decoded samples/s", rate(meters.decode.items, 1)},
          {"handed out samples/s", rate(num_samples, 1)},
          {"rounds ready", [this] { return static_cast<double>(output.size()); }},
          {"input held MB",
           [this] { return kPerMega * static_cast<double>(encoded.held() + pool.held_bytes()); }}};
}

Position Pipeline::State::first_position() const {
  Position first = options.resume ? *options.resume : Position::start_of(options.epochs.first);
  first.seed_processes = seed_processes(options);
  return own_share(first, options);
}

/// In the middle of an epoch: the next one may be of other shards.
void Pipeline::State::check_contents(const Position& start) const {
  if (start.streams.empty() || !start.contents.is_known()) return;
  if (start.contents.differs_from(contents()))
    refuse_position("the shards have the names they had, and other contents");
}

const Position::Contents& Pipeline::State::contents() const {
  std::call_once(contents_known_, [this] { contents_ = digest_contents(options); });
  return contents_;
}

bool Pipeline::State::next(Batch& batch) {
  batch = {};
  if (is_finished()) return false;
  const std::int64_t start = now_ns();
  std::int64_t unset = 0;
  first_next_ns.compare_exchange_strong(unset, start);
  TraceSpan span(options.trace, "consumer", "next");
  const bool more = fetch(batch);
  const std::int64_t end = now_ns();
  wait_ns += end - start;
  if (more && options.resources.autotune.on && plan.first != plan.most) tune(end);
  return more;
}

bool Pipeline::State::wait_for(std::chrono::nanoseconds timeout) {
  if (is_finished() || fault_ || masked_ || handed_out_ != round_.size()) return true;
  const std::int64_t start = now_ns();
  std::int64_t unset = 0;
  first_next_ns.compare_exchange_strong(unset, start);
  const bool ready = output.wait_for(timeout);
  if (!ready) graph->check();
  wait_ns += now_ns() - start;
  return ready;
}

detail::TuneMeters Pipeline::State::meters_until(std::int64_t now) const {
  const auto seconds = [](std::int64_t ns) { return 1e-9 * static_cast<double>(ns); };
  // The same threads merge and deliver, which never waits.
  const std::int64_t beside = meters.merge.busy_ns + meters.deliver.busy_ns;
  return {.seconds = seconds(now - first_next_ns),
          .samples = static_cast<double>(num_samples),
          .wait_seconds = seconds(wait_ns),
          .read_seconds = seconds(meters.read.busy_ns),
          .queue_seconds = seconds(meters.read_queue_ns),
          .decode_seconds = seconds(meters.decode.busy_ns + beside),
          .processor_seconds = seconds(meters.decode_processor_ns + beside),
          .program_seconds = Seconds(detail::ProgramClock::now()).count() / usable_cores()};
}

/// After the first batch, every interval.
void Pipeline::State::tune(std::int64_t now) {
  if (now < tune_at_ns_) return;
  tune_at_ns_ = now + std::chrono::nanoseconds(options.resources.autotune.interval).count();
  const detail::TuneMeters total = meters_until(now);
  const bool is_first = tuned_.samples == 0;
  const detail::TuneMeters window = total - tuned_;
  tuned_ = total;
  if (is_first || window.seconds <= 0) return;
  std::optional<detail::TuneSettings> changed;
  std::string kept;
  {
    MutexLock lock(mutex_);
    const bool tried = tuner_.is_trying();
    if (tuner_.observe(window)) {
      changed = tuner_.settings();
      read_threads_.change(changed->readers, first_next_ns, now);
      decode_threads_.change(changed->decode_threads, first_next_ns, now);
    } else if (tried && !tuner_.is_trying()) {
      kept = tuner_.text();
    }
  }
  if (changed) apply(*changed);
  if (!kept.empty()) options.log.info("Autotune: " + kept);
}

/// Where there are no more threads to be had, those that there are go on.
void Pipeline::State::apply(const detail::TuneSettings& settings) {
  try {
    graph->tune(settings);
  } catch (const Error& none) {
    if (none.code() != ErrorCode::kExhausted) throw;
    options.log.warn("Autotune: " + none.message());
  }
}

/// A call that threw has perhaps lost a batch, so that all later ones throw the same.
bool Pipeline::State::fetch(Batch& batch) {
  if (fault_) std::rethrow_exception(fault_);
  try {
    if (handed_out_ == round_.size() && !masked_) return fetch_output(batch);
    output.check();
    masked_ ? hand_out_masked(batch) : hand_out_next(batch);
    return true;
  } catch (...) {
    fault_ = std::current_exception();
    throw;
  }
}

bool Pipeline::State::fetch_output(Batch& batch) {
  constexpr std::chrono::milliseconds kLookAfter{500};
  while (!output.wait_for(kLookAfter)) graph->check();
  Output next = output.pop();
  switch (next.kind) {
    case Output::Kind::kRound:
      graph->return_permit();
      round_ = next.round->take();
      handed_out_ = std::exchange(to_skip_, 0);
      hand_out_next(batch);
      return true;
    case Output::Kind::kEpochEnd:
      check_epoch(next.epoch);
      end_epoch(next.epoch);
      return false;
    case Output::Kind::kFault:
      std::rethrow_exception(next.error);
    default:
      masked_ = std::move(next);
      hand_out_masked(batch);
      return true;
  }
}

/// The first batch has a sample of each stream, or of as many as it has slots.
void Pipeline::State::log_restore() const {
  constexpr double kMega = 1e6;
  const detail::RestoreMeter& restore = meters.restore;
  if (restore.samples == 0) return;
  options.log.info(fmt::format("Input restored in {:.2f} s: {} samples read again, {:.1f} MB",
                               Seconds(std::chrono::nanoseconds(restore.longest_ns)).count(),
                               restore.samples.load(), static_cast<double>(restore.bytes) / kMega));
}

void Pipeline::State::hand_out(Batch& batch, Batch next) {
  if (num_batches++ == 0) log_restore();
  num_samples += static_cast<std::uint64_t>(next.num_valid);
  num_masked += static_cast<std::uint64_t>(next.size - next.num_valid);
  epoch_samples_ += static_cast<std::uint64_t>(next.num_valid);
  batch = std::move(next);
  MutexLock lock(mutex_);
  if (batch.epoch != consumer_.ledger_epoch) consumer_.ledger = ledgers.of(batch.epoch);
  consumer_.ledger_epoch = batch.epoch;
  consumer_.position = *batch.position;
  if (batch.size == layout.batch_size()) consumer_.last[device_of(batch)] = batch;
}

/// The next one of the round.
void Pipeline::State::hand_out_next(Batch& batch) {
  Batch next = std::move(round_[handed_out_++]);
  hand_out(batch, next.owner ? std::move(next) : masked_in_place_of(next));
}

std::size_t Pipeline::State::device_of(const Batch& batch) const {
  return static_cast<std::size_t>(batch.index % options.split.topology.devices);
}

/// A masked batch with the number, slots and position of one that has no sample.
Batch Pipeline::State::masked_in_place_of(const Batch& head) const {
  Batch masked = masked_batch(static_cast<int>(device_of(head)));
  masked.index = head.index;
  masked.epoch = head.epoch;
  masked.slots = head.slots;
  masked.position = head.position;
  return masked;
}

void Pipeline::State::hand_out_masked(Batch& batch) {
  Batch head;
  head.epoch = masked_->epoch;
  head.index = masked_->index++;
  head.slots = slots_of_batch(options.split, options.batch.size, head.index);
  auto after = std::make_shared<Position>(masked_->position ? *masked_->position : position());
  after->slots = masked_->index * options.batch.size;
  const std::int64_t devices = options.split.topology.devices;
  after->round = {};
  if (const std::int64_t taken = masked_->index % devices; taken > 0)
    after->round = {.taken = taken, .devices = devices, .batch_size = options.batch.size};
  after->fills = {};
  for (Position::Stream& stream : after->streams) stream.ended = true;  // no sample is left
  head.position = std::move(after);
  if (--masked_->repeat == 0) masked_.reset();
  hand_out(batch, masked_in_place_of(head));
}

bool Pipeline::State::is_last(std::uint32_t epoch) const {
  const EpochOptions& epochs = options.epochs;
  return epochs.count != 0 && epoch + 1 == epochs.first + epochs.count;
}

/// Once, after the first epoch that shows it.
void Pipeline::State::advise_cache(std::uint32_t epoch) {
  const AutotuneOptions& autotune = options.resources.autotune;
  if (has_advised_ || !autotune.on || !autotune.advises || options.resources.decoded) return;
  const std::string about = is_last(epoch) ? "" : statistics().about_pictures();
  if (about.empty()) return;
  has_advised_ = true;
  options.log.info("Autotune: input-bound by decode: " + about);
}

void Pipeline::State::end_epoch(std::uint32_t epoch) {
  advise_cache(epoch);
  MutexLock lock(mutex_);
  consumer_.ledger = ledgers.of(epoch);
  consumer_.ledger_epoch = epoch;
  consumer_.position = consumer_.position.beginning_of(epoch + 1);
  consumer_.finished = is_last(epoch);
  ledgers.forget_before(epoch);
}

// An epoch without a sample would pass for one that was trained on. Only the rest of an epoch after
// a resume, and one process's share of it unless samples were lost, may be empty.
void Pipeline::State::check_epoch(std::uint32_t epoch) {
  const bool whole =
      !options.resume || options.resume->epoch != epoch || options.resume->slots == 0;
  const auto its_ledger = ledgers.of(epoch);
  const bool lost = its_ledger->skipped() > 0;
  const bool empty = std::exchange(epoch_samples_, 0) == 0;
  if (!empty || !whole || (options.split.topology.processes > 1 && !lost)) return;
  if (!lost && options.batch.uneven == Uneven::kDrop)
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("epoch {} has no sample: its only batch is not full and dropped", epoch));
  its_ledger->check_not_empty(fmt::format("epoch {}", epoch));
}

void Pipeline::State::stop() {
  output.fail(std::make_exception_ptr(
      Error(ErrorCode::kCancelled, "the pipeline was stopped", {.stage = "pipeline"})));
  graph->stop_reading();
}

bool Pipeline::State::is_finished() const {
  MutexLock lock(mutex_);
  return consumer_.finished;
}

Position Pipeline::State::position() const {
  MutexLock lock(mutex_);
  return consumer_.position;
}

Position Pipeline::State::position_to_save() const {
  Position stands = position();
  stands.contents = {};
  if (!stands.streams.empty() && ledger()->skipped() == 0) stands.contents = contents();
  return stands;
}

std::shared_ptr<const wds::FaultLedger> Pipeline::State::ledger() const {
  MutexLock lock(mutex_);
  return consumer_.ledger;
}

std::uint32_t Pipeline::State::ledger_epoch() const {
  MutexLock lock(mutex_);
  return consumer_.ledger_epoch;
}

/// In memory of its own: who has the last batch may still write to it, and to this one.
Batch Pipeline::State::copy_of_fields(const Batch& last) const {
  Batch batch;
  std::shared_ptr<std::byte> buffer = pool.acquire();
  if (last.owner)
    std::memcpy(buffer.get(), last.owner.get(), layout.num_bytes());
  else
    std::memset(buffer.get(), 0, pool.buffer_bytes());
  batch.fields = layout.show(buffer.get(), layout.batch_size());
  batch.ragged = layout.join({}, layout.batch_size());
  batch.owner = std::move(buffer);
  batch.size = layout.batch_size();
  return batch;
}

Batch Pipeline::State::masked_batch(int device) const {
  MutexLock lock(mutex_);
  require(device >= 0 && static_cast<std::size_t>(device) < consumer_.last.size(),
          "there is no such device");
  const Batch& last = consumer_.last[static_cast<std::size_t>(device)];
  Batch batch = copy_of_fields(last);
  batch.index = last.index;
  batch.slots = last.slots;
  batch.position =
      last.position ? last.position : std::make_shared<const Position>(consumer_.position);
  batch.epoch = consumer_.position.epoch;
  batch.valid.assign(static_cast<std::size_t>(batch.size), 0);
  batch.keys.assign(static_cast<std::size_t>(batch.size), {});
  return batch;
}

Tuning Pipeline::State::tuning() const {
  const detail::TuneSettings& settings = tuner_.settings();
  return {.on = options.resources.autotune.on,
          .readers = settings.readers,
          .decode_threads = settings.decode_threads,
          .read_ahead = settings.read_ahead,
          .text = tuner_.text()};
}

DecodedPictures Pipeline::State::decoded_pictures() const {
  DecodedPictures result{.decoded = pictures->decoded,
                         .decoded_bytes = pictures->decoded_bytes,
                         .decoding = std::chrono::nanoseconds(pictures->decoding_ns),
                         .found = pictures->found,
                         .is_repeated = options.epochs.count != 1};
  if (const auto& cache = options.resources.decoded) {
    result.kept = cache->size();
    result.kept_bytes = cache->used_bytes();
    result.cache_bytes = cache->options().bytes;
  }
  const std::uint64_t samples = meters.decode.items;
  if (result.decoded == 0 || samples == 0) return result;
  const double each =
      static_cast<double>(result.decoded_bytes) / static_cast<double>(result.decoded);
  const double per_sample =
      static_cast<double>(result.decoded + result.found) / static_cast<double>(samples);
  result.set_bytes =
      static_cast<std::uint64_t>(static_cast<double>(detail::set_samples(options)) * per_sample *
                                 (each + decode::DecodedCache::kMostBeside));
  return result;
}

Statistics Pipeline::State::statistics() const {
  Statistics statistics;
  const std::int64_t first = first_next_ns;
  const std::int64_t now = first == 0 ? 0 : now_ns();
  statistics.elapsed = std::chrono::nanoseconds(now - first);
  const auto add = [&](const char* name, const detail::StageMeter& meter, const ThreadTime& time) {
    statistics.stages.push_back(stage_statistics(name, meter, time.threads,
                                                 std::chrono::nanoseconds(time.total(first, now))));
  };
  {
    MutexLock lock(mutex_);
    add("read", meters.read, read_threads_);
    add("merge", meters.merge, {});
    add("decode", meters.decode, decode_threads_);
    add("deliver", meters.deliver, {});
    statistics.tuning = tuning();
  }
  statistics.consumer_wait = std::chrono::nanoseconds(wait_ns);
  statistics.batches = num_batches;
  statistics.samples = num_samples;
  statistics.masked = num_masked;
  statistics.dropped = meters.dropped;
  const detail::Skips skips = ledgers.skips_up_to(ledger_epoch());
  statistics.skipped = skips.samples;
  statistics.unknown_shards = skips.unknown_shards;
  statistics.refetched = skips.refetched;
  statistics.later_faults = meters.later_faults;
  statistics.untidy = meters.untidy;
  statistics.samples_to_restore = meters.restore.wanted;
  statistics.restored_samples = meters.restore.samples;
  statistics.restored_bytes = meters.restore.bytes;
  statistics.restore_time = std::chrono::nanoseconds(meters.restore.longest_ns);
  statistics.held_bytes = encoded.held() + pool.held_bytes();
  statistics.peak_held_bytes = encoded.peak() + pool.peak_bytes();
  statistics.pictures = decoded_pictures();
  return statistics;
}

BatchBuffers batch_buffers(PipelineOptions options) {
  options = detail::resolve_options(std::move(options));
  const detail::FieldDecoders decoders = detail::compile_fields(options.fields);
  const detail::BatchLayout layout(decoders, options.batch.size,
                                   detail::compile_ragged(options.fields),
                                   detail::BatchMixer(options, decoders).outputs());
  return {.bytes = std::max<std::size_t>(layout.num_bytes(), 1),
          .number = detail::share_memory(options, layout).num_batches};
}

Pipeline::Pipeline(PipelineOptions options) : state_(std::make_unique<State>(std::move(options))) {}
// The threads of a broken graph may never end: what they use is left to them.
Pipeline::~Pipeline() {
  if (state_ && state_->graph->is_broken()) static_cast<void>(state_.release());
}
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&& other) noexcept {
  const Pipeline before(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}

bool Pipeline::next(Batch& batch) { return state_->next(batch); }
bool Pipeline::wait_for(std::chrono::nanoseconds timeout) { return state_->wait_for(timeout); }
void Pipeline::stop() { state_->stop(); }
bool Pipeline::finished() const { return state_->is_finished(); }
Batch Pipeline::masked_batch(int device) const { return state_->masked_batch(device); }
const std::vector<BatchField>& Pipeline::fields() const { return state_->fields; }
Position Pipeline::position() const { return state_->position(); }
Position Pipeline::position_to_save() const { return state_->position_to_save(); }
Statistics Pipeline::statistics() const { return state_->statistics(); }
std::shared_ptr<const wds::FaultLedger> Pipeline::ledger() const { return state_->ledger(); }
const PipelineOptions& Pipeline::options() const { return state_->options; }
std::size_t Pipeline::memory_bound_bytes() const { return state_->plan.bound_bytes; }

}  // namespace millrace::pipeline
