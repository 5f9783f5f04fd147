#include "device/parallel_loader.h"

#include <exception>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "device/detail/landing_queue.h"
#include "io/base/check.h"
#include "io/base/thread_annotations.h"
#include "io/base/threads.h"
#include "pipeline/epoch_length.h"

namespace millrace::device {

using detail::LandingQueue;

struct DeviceLoader::State {
  State(const LoaderOptions& options, Device& runs_on, const pipeline::Pipeline& from)
      : queue(static_cast<std::size_t>(options.depth)),
        landing(options.landing),
        device(runs_on),
        pipeline(from) {}

  LandingQueue queue;
  const Landing landing;
  Device& device;
  const pipeline::Pipeline& pipeline;
};

struct ParallelLoader::State {
  State(pipeline::Pipeline from, DeviceSet set, const LoaderOptions& options);
  ~State() { stop(); }

  void land_all();
  /// One epoch; false when the loader was stopped.
  bool land_epoch();
  bool land_whole_rounds();
  pipeline::Batch masked_after(const pipeline::Batch& last) const;
  bool land(pipeline::Batch batch);
  bool wait_for_room(std::size_t to);
  std::vector<TraceGauge> trace_gauges() const;
  Tracer* trace() const { return pipeline.options().trace; }
  void stop();
  void note_ledger(std::uint32_t epoch);
  std::shared_ptr<const wds::FaultLedger> ledger_of(std::uint32_t epoch);

  pipeline::Pipeline pipeline;
  const DeviceSet devices;
  const Landing landing;
  std::vector<DeviceLoader> loaders;
  std::vector<LandingQueue*> queues;
  std::size_t place = 0;  ///< the device whose turn it is
  std::optional<TraceGauges> gauges;
  Mutex mutex;
  /// By epoch: the devices are behind the pipeline.
  std::map<std::uint32_t, std::shared_ptr<const wds::FaultLedger>> ledgers
      MILLRACE_GUARDED_BY(mutex);
  std::jthread thread;
};

namespace {

/// Of the loader's thread, which also waits for the pipeline.
constexpr const char* kTraceRole = "consumer";

bool ends_with_whole_round(const pipeline::PipelineOptions& options, std::size_t devices) {
  const auto batches = pipeline::batches_per_epoch(options);
  return batches && *batches % static_cast<std::int64_t>(devices) == 0;
}

}  // namespace

ParallelLoader::State::State(pipeline::Pipeline from, DeviceSet set, const LoaderOptions& options)
    : pipeline(std::move(from)), devices(std::move(set)), landing(options.landing) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    auto loader = std::make_shared<DeviceLoader::State>(options, devices[i], pipeline);
    queues.push_back(&loader->queue);
    loaders.push_back(DeviceLoader(std::move(loader)));
  }
  gauges.emplace(trace(), trace_gauges());
  thread = start_thread("to pass batches to the devices", [this] { land_all(); });
}

void ParallelLoader::State::stop() {
  for (LandingQueue* queue : queues) queue->stop();
  pipeline.stop();
}

void ParallelLoader::State::land_all() {
  const bool drops = pipeline.options().batch.uneven == pipeline::Uneven::kDrop &&
                     !ends_with_whole_round(pipeline.options(), devices.size());
  try {
    while (!pipeline.finished()) {
      if (!(drops ? land_whole_rounds() : land_epoch())) return;
      const auto ledger = pipeline.ledger();
      for (LandingQueue* queue : queues) queue->push_end(pipeline.finished(), ledger);
    }
  } catch (...) {
    for (LandingQueue* queue : queues) queue->push_fault(std::current_exception());
  }
}

bool ParallelLoader::State::land_epoch() {
  pipeline::Batch last;
  for (pipeline::Batch batch; pipeline.next(batch);) {
    note_ledger(batch.epoch);
    last.index = batch.index;
    last.position = batch.position;
    if (!land(std::move(batch))) return false;
  }
  while (place != 0) {
    pipeline::Batch masked = masked_after(last);
    last.index = masked.index;
    last.position = masked.position;
    if (!land(std::move(masked))) return false;
  }
  return true;
}

/// Whether a round is complete is known when its last batch has come.
bool ParallelLoader::State::land_whole_rounds() {
  std::vector<pipeline::Batch> round;
  for (pipeline::Batch batch; pipeline.next(batch);) {
    note_ledger(batch.epoch);
    round.push_back(std::move(batch));
    if (round.size() < devices.size()) continue;
    for (pipeline::Batch& one : round)
      if (!land(std::move(one))) return false;
    round.clear();
  }
  return true;
}

/// Fills up a round: the epoch's samples have all been given.
pipeline::Batch ParallelLoader::State::masked_after(const pipeline::Batch& last) const {
  pipeline::Batch masked = pipeline.masked_batch();
  masked.index = last.index + 1;
  auto position = std::make_shared<pipeline::Position>(*last.position);
  position->slots += pipeline.options().batch.size;
  position->round = {};
  for (pipeline::Position::Stream& stream : position->streams) stream.ended = true;
  masked.position = std::move(position);
  return masked;
}

bool ParallelLoader::State::land(pipeline::Batch batch) {
  const std::size_t to = place;
  place = (place + 1) % queues.size();
  if (!wait_for_room(to)) return false;
  TraceSpan span(trace(), kTraceRole, "land");
  if (span) span.arg("device", devices[to].name());
  pipeline::trace_batch(batch, span);
  queues[to]->push(devices[to].land(std::move(batch), landing));
  return true;
}

/// Requires: the pipeline's last batch is of the epoch.
void ParallelLoader::State::note_ledger(std::uint32_t epoch) {
  const MutexLock lock(mutex);
  if (!ledgers.contains(epoch)) ledgers.emplace(epoch, pipeline.ledger());
}

std::shared_ptr<const wds::FaultLedger> ParallelLoader::State::ledger_of(std::uint32_t epoch) {
  const MutexLock lock(mutex);
  ledgers.erase(ledgers.begin(), ledgers.lower_bound(epoch));
  const auto found = ledgers.find(epoch);
  return found == ledgers.end() ? nullptr : found->second;
}

bool ParallelLoader::State::wait_for_room(std::size_t to) {
  const TraceSpan span(trace(), kTraceRole, "wait for room");
  return queues[to]->wait_for_room();
}

std::vector<TraceGauge> ParallelLoader::State::trace_gauges() const {
  std::vector<TraceGauge> all;
  for (std::size_t i = 0; i < queues.size(); ++i)
    all.push_back({"landed for " + devices[i].name(),
                   [queue = queues[i]] { return static_cast<double>(queue->ready()); }});
  return all;
}

bool DeviceLoader::next(DeviceBatch& batch) { return state_->queue.next(batch); }
bool DeviceLoader::finished() const { return state_->queue.finished(); }
std::shared_ptr<const wds::FaultLedger> DeviceLoader::ledger() const {
  return state_->queue.ledger();
}
WaitStatistics DeviceLoader::waits() const { return state_->queue.waits(); }
std::size_t DeviceLoader::ready() const { return state_->queue.ready(); }

DeviceBatch DeviceLoader::masked_batch() const {
  DeviceBatch batch = state_->queue.last();
  if (!batch.owner)
    return state_->device.land(state_->pipeline.masked_batch(), state_->landing).get();
  batch.num_valid = 0;
  batch.valid.assign(batch.valid.size(), 0);
  batch.keys.assign(batch.keys.size(), {});
  return batch;
}

ParallelLoader::ParallelLoader(pipeline::Pipeline pipeline, DeviceSet devices,
                               const LoaderOptions& options) {
  MILLRACE_CHECK(options.depth > 0, "a loader's depth is above 0");
  state_ = std::make_unique<State>(std::move(pipeline), std::move(devices), options);
}

ParallelLoader::~ParallelLoader() = default;

DeviceLoader& ParallelLoader::operator[](std::size_t place) { return state_->loaders[place]; }
std::size_t ParallelLoader::size() const { return state_->loaders.size(); }
std::shared_ptr<const wds::FaultLedger> ParallelLoader::ledger_of(std::uint32_t epoch) const {
  return state_->ledger_of(epoch);
}
void ParallelLoader::stop() { state_->stop(); }
const pipeline::Pipeline& ParallelLoader::pipeline() const { return state_->pipeline; }

}  // namespace millrace::device
