// Device: something that replicas run on, with its own thread and its own memory.
//
// A replica does all its work on its device's thread, so that its team of threads and its
// primitives are its own. Batches are brought to the device's memory before the replica asks for
// them (ParallelLoader). A CPU device (cpu_device.h) has the process's memory for its own.
//
//   DeviceSet devices = DeviceSet::parse("8");        // or "[5]": device 5 of the machine alone
//   devices[3].run([&] { replica.step(batch); });      // waits; throws what the function threw
//   auto done = devices[3].submit([&] { ... });        // a future
//
// Threads: every member may be called from any thread but the device's own; what is handed over
// runs in the order of the calls.
#pragma once

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

  /// Hands `work` over to the device's thread; the future holds its end or its exception.
  virtual std::future<void> submit(std::function<void()> work) = 0;
  /// Begins to bring a batch to the device's memory. A device that copies by itself returns while
  /// the copy is under way, and keeps `batch` until it is done; several may be on their way. The
  /// future gives the batch as it landed: fields[i].data lies in the device's memory, which `owner`
  /// keeps, and all else is as it was. It is asked for on the thread that uses the batch, which is
  /// where a device may wait for its copy, or throw what became of it. Throws: what cannot be
  /// begun.
  virtual std::future<DeviceBatch> land(pipeline::Batch batch) = 0;

  /// Runs `work` on the device's thread and waits. Throws what `work` throws.
  void run(std::function<void()> work) { submit(std::move(work)).get(); }
};

struct DeviceSetOptions {
  /// Cores to share out; 0: all that this process may use, by usable_cores().
  int num_cores = 0;
  bool pin = false;
};

/// The devices of this process, in order. A copy shares them.
class DeviceSet {
 public:
  /// Requires: at least one, none of them null.
  explicit DeviceSet(std::vector<std::shared_ptr<Device>> devices);
  /// CPU devices 0 to count-1, each with an equal share of the cores, at least one (devices then
  /// share).
  static DeviceSet cpu(int count, const DeviceSetOptions& options = {});
  /// "8": eight CPU devices. "[5]" or "[0,2]": those with these numbers, of as many as the largest
  /// needs. Throws: InvalidArgument, naming what is wrong with the text.
  static DeviceSet parse(std::string_view text, const DeviceSetOptions& options = {});

  std::size_t size() const { return devices_.size(); }
  /// The device at a place in the set (not by its number).
  Device& operator[](std::size_t place) const { return *devices_[place]; }

  /// Runs `work(place)` on every device at once and waits for all. Throws the exception of the
  /// first place that has one.
  void run_all(const std::function<void(std::size_t)>& work) const;

 private:
  std::vector<std::shared_ptr<Device>> devices_;
};

}  // namespace millrace::device
