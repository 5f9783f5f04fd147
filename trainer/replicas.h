// ReplicaThreads: the threads on which replicas run, one a device.
//
//   LocalThreads devices(2);
//   devices.run([&](int replica) { ... });   // returns when both have ended
//
// The real ones are a DeviceSet's (device_threads.h); LocalThreads are plain threads.
#pragma once

#include <functional>
#include <string>

namespace millrace::trainer {

class ReplicaThreads {
 public:
  virtual ~ReplicaThreads() = default;

  virtual int size() const = 0;
  /// The device's name as it is printed: "cpu:0".
  virtual std::string name(int replica) const = 0;
  /// Runs `work(replica)` on every device's thread at once and waits for all of them. When some
  /// throw, the first one in time is thrown here after the last has ended.
  virtual void run(const std::function<void(int)>& work) = 0;
};

class LocalThreads final : public ReplicaThreads {
 public:
  /// Requires: size > 0.
  explicit LocalThreads(int size);
  int size() const override { return size_; }
  std::string name(int replica) const override;
  void run(const std::function<void(int)>& work) override;

 private:
  int size_;
};

}  // namespace millrace::trainer
