// Device: something that replicas run on: its own thread, its own OpenMP team, its slice of cores.
//
// N CPU devices work on any machine, also on one with fewer cores than devices. A replica does all
// its work on its device's thread, so that its OpenMP team and its primitives are its own.
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
#include <vector>

namespace millrace::device {

struct DeviceOptions {
  /// Its number on this machine: the 5 of "cpu:5".
  int index = 0;
  /// The cores it was given; its OpenMP team has as many threads.
  std::vector<int> cores = {0};
  /// Whether its threads may run on those cores alone.
  bool pin = false;
};

class Device {
 public:
  explicit Device(DeviceOptions options);
  /// Waits for the function that runs; drops those that have not begun.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const;
  /// "cpu:5".
  const std::string& name() const;
  const std::vector<int>& cores() const;
  /// Threads of its OpenMP team.
  int num_threads() const;

  /// Runs `work` on the device's thread and waits. Throws what `work` throws.
  void run(const std::function<void()>& work);
  /// Hands `work` over; the future holds its end or its exception.
  std::future<void> submit(std::function<void()> work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct DeviceSetOptions {
  /// Cores to share out; 0: all that this process may use, by usable_cores().
  int num_cores = 0;
  bool pin = false;
};

/// The devices of this process, in order.
class DeviceSet {
 public:
  /// Devices 0 to count-1, each with an equal share of the cores, at least one (devices then
  /// share).
  static DeviceSet cpu(int count, const DeviceSetOptions& options = {});
  /// "8": eight devices. "[5]" or "[0,2]": the devices with these numbers, of as many as the
  /// largest needs. Throws: InvalidArgument, naming what is wrong with the text.
  static DeviceSet parse(std::string_view text, const DeviceSetOptions& options = {});

  std::size_t size() const { return devices_.size(); }
  /// The device at a place in the set (not by its number).
  Device& operator[](std::size_t place) const { return *devices_[place]; }

  /// Runs `work(place)` on every device at once and waits for all. Throws the exception of the
  /// first place that has one.
  void run_all(const std::function<void(std::size_t)>& work) const;

 private:
  DeviceSet(const std::vector<int>& numbers, const DeviceSetOptions& options);

  std::vector<std::shared_ptr<Device>> devices_;
};

}  // namespace millrace::device
