// FlatBuffer: a run's flat buffer, in the host's memory, in devices', or both.
//
// A device has an array per entry of the buffer's table. What a program returns takes their place,
// and the host's values are old until somebody reads them.
//
// Threads: from any; nothing reads values that a program is about to replace.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "device/pjrt/client.h"
#include "trainer/device_span.h"
#include "trainer/parameters.h"

namespace millrace::trainer {

/// In the order of a table's entries, or of a program's arguments.
using DeviceArrays = std::vector<device::pjrt::Buffer>;

class FlatBuffer {
 public:
  /// Zeros.
  explicit FlatBuffer(std::size_t floats) : host_(floats) {}

  /// The buffer that `span` is of.
  static FlatBuffer& of(DeviceSpan span);
  BufferHandle handle();
  bool is_whole(DeviceSpan span) const { return span.size() == host_.size(); }

  /// Waits for the program that makes them. Throws: what it failed with.
  void read(std::size_t offset, std::span<float> to);
  /// The devices' copies go.
  void write(std::size_t offset, std::span<const float> from);
  /// All of both.
  static void swap(FlatBuffer& a, FlatBuffer& b);

  /// The arrays on client.devices()[device]: copies them there if they are not. `table` is the same
  /// in all calls. Lifetime: of the reference: until write(), swap() or replace().
  const DeviceArrays& on(const device::pjrt::Client& client, std::size_t device,
                         const ParameterTable& table);
  /// What a program has made of on()'s arrays.
  void replace(std::size_t device, DeviceArrays arrays);

 private:
  void fetch();

  std::mutex mutex_;
  std::vector<float> host_;
  bool is_host_current_ = true;
  const ParameterTable* table_ = nullptr;
  std::map<std::size_t, DeviceArrays> devices_;
};

/// An array per entry of the table, by values in its layout; and back, which waits for the program
/// that makes them.
DeviceArrays copy_table(const device::pjrt::Client& client, std::size_t device,
                        const ParameterTable& table, std::span<const float> flat);
void read_table(const ParameterTable& table, const DeviceArrays& arrays, std::span<float> flat);
/// A float32 array on a device.
device::pjrt::Buffer copy_floats(const device::pjrt::Client& client, std::size_t device,
                                 std::span<const float> values,
                                 const std::vector<std::int64_t>& shape);

}  // namespace millrace::trainer
