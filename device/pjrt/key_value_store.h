// KeyValueStore: what the processes of a run tell each other while a plugin connects their devices.
//
//   pjrt::Client client(plugin, {.network = {.process = 0, .processes = 2, .store = store}});
//
// trainer/pjrt/transport_store.h is one over a run's Transport.
//
// Threads: any; a plugin asks on several of its own.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace millrace::device::pjrt {

class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  /// For all processes to get.
  virtual void put(const std::string& key, const std::string& value) = 0;
  /// Waits until a process has put it; 0: does not wait. Nullopt if none has by then.
  virtual std::optional<std::string> get(const std::string& key,
                                         std::chrono::milliseconds patience) = 0;
  /// For when the plugin has not started, and its threads may still ask: calls fail from now on.
  virtual void stop() noexcept = 0;
};

/// The processes that a plugin is to connect: a program may then run on the devices of all.
struct Network {
  int process = 0;
  int processes = 1;
  std::shared_ptr<KeyValueStore> store = {};  ///< null: none, or the plugin finds them by itself
};

}  // namespace millrace::device::pjrt
