// DeviceSpan: floats in a backend's memory, which only the backend may access.
//
// A span can be passed, cut and compared as any other; its address is meaningful only to the
// backend that returned it (trainer/backend.h).
//
//   const DeviceBuffer weights = backend.allocate(table.padded_size());
//   backend.write(values, weights.span.subspan(16, values.size()));
//
// Threads: as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/base/check.h"

namespace millrace::trainer {

class DeviceSpan {
 public:
  DeviceSpan() = default;
  /// `size` floats from `address` on.
  DeviceSpan(std::uintptr_t address, std::size_t size) : address_(address), size_(size) {}

  std::uintptr_t address() const { return address_; }
  std::size_t size() const { return size_; }  ///< in floats
  bool empty() const { return size_ == 0; }
  /// Requires: offset + count <= size().
  DeviceSpan subspan(std::size_t offset, std::size_t count) const {
    MILLRACE_CHECK(offset <= size_ && count <= size_ - offset, "a subspan past the end");
    return {address_ + offset * sizeof(float), count};
  }

  friend bool operator==(const DeviceSpan&, const DeviceSpan&) = default;

 private:
  std::uintptr_t address_ = 0;
  std::size_t size_ = 0;
};

/// Memory that is freed with the last copy of `owner`.
struct DeviceBuffer {
  DeviceSpan span = {};
  std::shared_ptr<void> owner = {};
};

}  // namespace millrace::trainer
