// PjrtDevice: a plugin's device, to which a loader brings batches while it computes.
//
//   DeviceSet devices = pjrt_devices(client, "tpu");      // "tpu:0", "tpu:1", ...
//
// Its thread only gives it work. land() copies a batch's fields, and keeps them in the host's
// memory too, where targets are checked.
//
// Threads: as Device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/pjrt/client.h"

namespace millrace::device::pjrt {

/// A batch's fields in a device's memory, in the batch's order.
struct LandedFields final : pipeline::Landed {
  struct Field {
    std::string name;
    Buffer array;
  };

  /// Null if the field stayed in the host's memory.
  const Buffer* find(std::string_view name) const;

  std::vector<Field> fields;
};

/// All of the client's, in order, called `name` and their numbers.
DeviceSet pjrt_devices(const std::shared_ptr<const Client>& client, const std::string& name);

}  // namespace millrace::device::pjrt
