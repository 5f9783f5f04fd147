// DeviceSpan: floats of a backend's buffer, which only the backend may access.
//
// A buffer is named by its handle, a part of it by handle, offset and size: a backend may keep a
// buffer's values at another place after every step (donated buffers), and the handle stays.
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

/// A buffer, as the backend that allocated it names it: an address, a key. 0 is none.
enum class BufferHandle : std::uintptr_t {};

class DeviceSpan {
 public:
  DeviceSpan() = default;
  /// `size` floats of `buffer` from `offset` on.
  DeviceSpan(BufferHandle buffer, std::size_t offset, std::size_t size)
      : buffer_(buffer), offset_(offset), size_(size) {}

  BufferHandle buffer() const { return buffer_; }
  std::size_t offset() const { return offset_; }  ///< in floats
  std::size_t size() const { return size_; }      ///< in floats
  bool empty() const { return size_ == 0; }
  /// Requires: offset + count <= size().
  DeviceSpan subspan(std::size_t offset, std::size_t count) const {
    MILLRACE_CHECK(offset <= size_ && count <= size_ - offset, "a subspan past the end");
    return {buffer_, offset_ + offset, count};
  }

  friend bool operator==(const DeviceSpan&, const DeviceSpan&) = default;

 private:
  BufferHandle buffer_ = {};
  std::size_t offset_ = 0;
  std::size_t size_ = 0;
};

/// A whole buffer, which is freed with the last copy of `owner`.
struct DeviceBuffer {
  DeviceSpan span = {};
  std::shared_ptr<void> owner = {};
};

}  // namespace millrace::trainer
