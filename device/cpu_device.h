// CpuDevice: a thread with its own OpenMP team and its slice of the cores.
//
// N CPU devices work on any machine, also on one with fewer cores than devices.
//
// Threads: as a Device.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"

namespace millrace::device {

struct CpuDeviceOptions {
  /// Its number on this machine.
  int index = 0;
  /// The cores it was given; its OpenMP team has as many threads.
  std::vector<int> cores = {0};
  /// Whether its threads may run on those cores alone.
  bool pin = false;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(CpuDeviceOptions options);
  /// Waits for the function that runs; drops those that have not begun.
  ~CpuDevice() override;

  int index() const override;
  const std::string& name() const override;
  std::future<void> submit(std::function<void()> work) override;
  /// Has landed at once: nothing is copied.
  std::future<DeviceBatch> land(pipeline::Batch batch) override;

  const std::vector<int>& cores() const;
  /// Threads of its OpenMP team.
  int num_threads() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::device
