// ParallelLoader: one pipeline, several devices, one bounded queue of landed batches for each.
//
// Batch b of an epoch goes to device b mod n, so a step of n devices uses n batches in a row: the
// same samples as one device with batches n times as large. A pipeline with split.topology.devices
// == n gives them to its batches one by one (pipeline/slots.h). All devices get the same number of
// batches: the last round is filled up with fully masked ones, or left out where the pipeline drops
// incomplete global batches. A pipeline is split by process: the devices of a process share it.
//
//   ParallelLoader loader(std::move(pipeline), devices);
//   devices.run_all([&](std::size_t place) {
//     for (Batch batch; loader[place].next(batch);) step(batch);  // one epoch
//   });
//
// Every device must take its batches: one that stops blocks the others once its queue is full. A
// fault of the pipeline is thrown by every device's next(), after the batches before it; a fault of
// a landing by its own device's next() alone.
//
// Concurrency: one thread takes batches from the pipeline and has the devices land them
// (Device::land()). Order: the pipeline's. Buffers: `depth` batches per device, landed or landing.
// Threads: one thread per DeviceLoader; ParallelLoader::stop() from any; all else from one at a
// time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "device/device.h"
#include "pipeline/pipeline.h"

namespace millrace::device {

struct LoaderOptions {
  /// Batches that wait for each device, landed or landing.
  int depth = 2;
  /// What each device brings to its memory.
  Landing landing = {};
};

/// The time that one device spent in next(), waiting for batches and for their landing.
struct WaitStatistics {
  std::uint64_t batches = 0;            ///< handed out
  std::uint64_t ready = 0;              ///< those that were there when next() was called
  std::chrono::nanoseconds total{0};    ///< ends of epochs included
  std::chrono::nanoseconds longest{0};  ///< of one call
  /// From the loader's construction to this device's first batch.
  std::chrono::nanoseconds first_batch{0};
};

class ParallelLoader;

/// The batches of one device of a ParallelLoader, which must outlive it.
class DeviceLoader {
 public:
  /// As Pipeline::next(): waits for a batch and returns true, or returns false at the end of an
  /// epoch, on all devices after the same number of batches. Throws: the fault of the pipeline or
  /// of the landing, the same again at every later call; Cancelled after stop().
  bool next(DeviceBatch& batch);
  /// Whether next() has returned false for the last epoch.
  bool finished() const;
  /// What was read and skipped in the last epoch for which next() returned false; null before.
  std::shared_ptr<const wds::FaultLedger> ledger() const;
  /// A batch without a valid slot that shares the values of the device's last one; zeros before it.
  DeviceBatch masked_batch() const;
  WaitStatistics waits() const;
  /// Batches that wait for the device now.
  std::size_t ready() const;

 private:
  friend class ParallelLoader;
  struct State;
  explicit DeviceLoader(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class ParallelLoader {
 public:
  /// Starts to take batches. Requires: options.depth > 0.
  ParallelLoader(pipeline::Pipeline pipeline, DeviceSet devices, const LoaderOptions& options = {});
  /// Stops at once, also in the middle of an epoch. Requires: no call of next() is running; stop()
  /// ends them.
  ~ParallelLoader();
  ParallelLoader(const ParallelLoader&) = delete;
  ParallelLoader& operator=(const ParallelLoader&) = delete;

  /// The loader of the device at `place` of the set. Requires: place < size().
  DeviceLoader& operator[](std::size_t place);
  /// Number of devices.
  std::size_t size() const;
  /// Makes the current and all later calls of every next() throw Cancelled. Threads: any.
  void stop();
  /// The pipeline, for its fields and statistics. Its ledger() may be of a later epoch than the
  /// devices': DeviceLoader::ledger() is theirs.
  const pipeline::Pipeline& pipeline() const;
  /// Of an epoch of which a batch has been landed, while it goes on too; null before, and for those
  /// before one that was asked for. Threads: any.
  std::shared_ptr<const wds::FaultLedger> ledger_of(std::uint32_t epoch) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::device
