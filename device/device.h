// Device: what a replica runs on, with its own thread and its own memory.
//
// A replica does all its work on its device's thread, so that its team of threads and its
// primitives are its own. Batches are brought to the device's memory before the replica asks for
// them (ParallelLoader). A CPU device (cpu_device.h) uses the process's memory.
//
//   DeviceSet devices = DeviceSet::parse("8");        // or "[5]": device 5 of the machine alone
//   devices[3].run([&] { replica.step(batch); });      // waits; throws what the function threw
//   auto done = devices[3].submit([&] { ... });        // a future
//
// Order: submitted functions run in the order of the calls. Threads: every member may be called
// from any thread but the device's own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/batch.h"

namespace millrace::device {

/// A batch in its device's memory. On a CPU that is the pipeline's own buffer, shared.
using DeviceBatch = pipeline::Batch;

/// Which of a batch's fields a device brings to its memory: all but those named here.
struct Landing {
  /// Fields that stay as the pipeline made them, in the host's memory: targets of a loss that the
  /// host computes, or pictures that a step takes raw.
  std::vector<std::string> stays = {};
  /// If there are any, only these move.
  std::vector<std::string> only = {};

  bool moves(std::string_view field) const {
    const auto has = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), field) != names.end();
    };
    return (only.empty() || has(only)) && !has(stays);
  }
};

class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Its number on this machine: the 5 of "cpu:5".
  virtual int index() const = 0;
  /// "cpu:5".
  virtual const std::string& name() const = 0;

  /// Queues `work` for the device's thread; the future becomes ready when it ends, and throws what
  /// it threw.
  virtual std::future<void> submit(std::function<void()> work) = 0;
  /// Begins to bring a batch to the device's memory. A device that copies asynchronously returns
  /// while the copy is under way, and keeps `batch` until it is done; several copies may be under
  /// way. The future holds the landed batch: fields[i].data points into the device's memory if
  /// `landing` moves the field, `owner` keeps what all point to alive, and all else is unchanged.
  /// Its get() is called on the thread that uses the batch, and there waits for the copy or throws
  /// its fault. Throws: a copy that cannot begin.
  virtual std::future<DeviceBatch> land(pipeline::Batch batch, const Landing& landing) = 0;

  /// Runs `work` on the device's thread and waits. Throws what `work` throws.
  void run(std::function<void()> work) { submit(std::move(work)).get(); }
};

struct DeviceSetOptions {
  /// Cores to divide among the devices. 0: usable_cores().
  int num_cores = 0;
  /// As CpuDeviceOptions::pin.
  bool pin = false;
};

/// The devices of this process, in order. Copies share them.
class DeviceSet {
 public:
  /// Requires: at least one, none of them null.
  explicit DeviceSet(std::vector<std::shared_ptr<Device>> devices);
  /// CPU devices 0 to count-1, each with an equal share of the cores; more devices than cores share
  /// them, one core each. Throws: InvalidArgument unless 1 <= count <= 1024.
  static DeviceSet cpu(int count, const DeviceSetOptions& options = {});
  /// "8": as cpu(8). "[5]" or "[0,2]": CPU devices with these numbers, among which all cores are
  /// divided. Throws: InvalidArgument, with the text and the reason.
  static DeviceSet parse(std::string_view text, const DeviceSetOptions& options = {});
  /// How many parse() would make. Throws: as parse().
  static int count(std::string_view text);

  std::size_t size() const { return devices_.size(); }
  /// The device at a place in the set, which is not its number. Requires: place < size().
  Device& operator[](std::size_t place) const { return *devices_[place]; }

  /// Runs `work(place)` on every device at once and waits for all. Throws: what the first place
  /// that threw has thrown.
  void run_all(const std::function<void(std::size_t)>& work) const;

 private:
  std::vector<std::shared_ptr<Device>> devices_;
};

}  // namespace millrace::device
