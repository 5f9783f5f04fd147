// ParallelLoader: one pipeline, several devices, one bounded queue of landed batches for each.
//
// Batch b of an epoch goes to device b mod n, so a step of n devices uses n batches in a row: the
// same samples as one device with batches n times as large. All devices get the same number of
// batches: the last round is filled up with fully masked ones. A pipeline is
// split by process: the devices of a process share it.
//
//   ParallelLoader loader(std::move(pipeline), devices);
//   devices.run_all([&](std::size_t place) {
//     for (Batch batch; loader[place].next(batch);) step(batch);  // one epoch
//   });
//
// Concurrency: one thread takes batches from the pipeline and has the devices land them
// (Device::land()). Buffers: `depth` batches a device that have landed or are about to. Each device
// must take its batches: one that stops while the others go on holds them up once its queue is
// full. An exception from the pipeline reaches every device's next(), after the batches that came
// before it; one of a landing reaches its own device's. Threads: one thread a DeviceLoader;
// everything else from one at a time.
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
};

/// What one device waited for, its batches' landing included.
struct WaitStatistics {
  std::uint64_t batches = 0;
  std::chrono::nanoseconds total{0};
  std::chrono::nanoseconds longest{0};
  /// From the loader's construction to this device's first batch.
  std::chrono::nanoseconds first_batch{0};
};

class ParallelLoader;

/// One device's end of a ParallelLoader.
class DeviceLoader {
 public:
  /// As Pipeline::next(): true and a batch, or false at the end of an epoch, for all devices after
  /// the same number of batches. Throws: what the pipeline or the landing threw, and the same again
  /// ever after; Cancelled after stop().
  bool next(DeviceBatch& batch);
  /// Whether the last epoch has ended.
  bool finished() const;
  /// What was read and skipped in the epoch whose end next() told last; null before.
  std::shared_ptr<const wds::FaultLedger> ledger() const;
  /// A batch without a valid slot, with the pixels of the device's last one; zeros before it.
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
  ParallelLoader(pipeline::Pipeline pipeline, DeviceSet devices, const LoaderOptions& options = {});
  /// Stops at once, in mid-epoch too. Nobody may be in a next() any more (see stop()).
  ~ParallelLoader();
  ParallelLoader(const ParallelLoader&) = delete;
  ParallelLoader& operator=(const ParallelLoader&) = delete;

  /// The end of the device at `place` of the set.
  DeviceLoader& operator[](std::size_t place);
  std::size_t size() const;
  /// Makes every next(), running or to come, throw Cancelled. From any thread.
  void stop();
  /// The pipeline, for what is const about it: fields, statistics, ledger.
  const pipeline::Pipeline& pipeline() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::device
