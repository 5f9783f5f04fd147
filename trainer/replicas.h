// ReplicaThreads: the threads on which replicas run, one per device.
//
//   DeviceThreads threads(devices);
//   threads.run([&](int replica) { ... });   // returns when all have ended
//
// Threads: one at a time.
#pragma once

#include <functional>
#include <string>

#include "device/device.h"

namespace millrace::trainer {

class ReplicaThreads {
 public:
  virtual ~ReplicaThreads() = default;

  virtual int size() const = 0;
  /// The device's name: "cpu:0".
  virtual std::string name(int replica) const = 0;
  /// Runs `work(replica)` on every device's thread at once and waits for all. Throws: what one of
  /// them threw.
  virtual void run(const std::function<void(int)>& work) = 0;
};

/// A DeviceSet's threads. `devices` is borrowed.
class DeviceThreads final : public ReplicaThreads {
 public:
  explicit DeviceThreads(const device::DeviceSet& devices) : devices_(devices) {}

  int size() const override { return static_cast<int>(devices_.size()); }
  std::string name(int replica) const override {
    return devices_[static_cast<std::size_t>(replica)].name();
  }
  void run(const std::function<void(int)>& work) override {
    devices_.run_all([&](std::size_t place) { work(static_cast<int>(place)); });
  }

 private:
  const device::DeviceSet& devices_;
};

}  // namespace millrace::trainer
