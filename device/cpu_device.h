// CpuDevice: a thread with its own OpenMP team and its slice of the cores.
//
// N CPU devices work on any machine, also on one with fewer cores than devices.
//
// Threads: as Device.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"

namespace millrace::device {

struct CpuDeviceOptions {
  /// Its number on this machine.
  int index = 0;
  /// Numbers of its cores, at least one; its OpenMP team has as many threads.
  std::vector<int> cores = {0};
  /// Binds its threads to those cores, as far as the system permits.
  bool pin = false;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(CpuDeviceOptions options);
  /// Waits for the function that is running. Those that have not begun are dropped; their futures
  /// throw std::future_error.
  ~CpuDevice() override;

  int index() const override;
  const std::string& name() const override;
  std::future<void> submit(std::function<void()> work) override;
  /// Returns a future that is ready: nothing is copied.
  std::future<DeviceBatch> land(pipeline::Batch batch, const Landing& landing) override;

  const std::vector<int>& cores() const;
  /// Threads of its OpenMP team.
  int num_threads() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::device
