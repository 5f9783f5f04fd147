// Bytes: a run of immutable bytes and a share in whatever owns them.
//
// A copy or a slice costs one reference count, never a copy of the data. The data lives as long as
// the last Bytes that shows it.
//
//   Bytes all = Bytes::take(std::move(vector));
//   Bytes head = all.slice(0, 512);
//
// Threads: as a value; the data itself may be read from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::io {

class Bytes {
 public:
  Bytes() = default;

  /// Shows `data`, which `owner` keeps alive.
  Bytes(std::span<const std::byte> data, std::shared_ptr<const void> owner)
      : data_(data), owner_(std::move(owner)) {}

  static Bytes copy_of(std::span<const std::byte> data);
  static Bytes copy_of(std::string_view text);
  static Bytes take(std::vector<std::byte> data);

  const std::byte* data() const { return data_.data(); }
  std::size_t size() const { return data_.size(); }
  bool empty() const { return data_.empty(); }
  std::span<const std::byte> span() const { return data_; }
  /// The same bytes as text; valid as long as any share in the data.
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data_.data()), data_.size()};
  }
  /// `size` bytes from `offset` on. Requires: offset + size <= this->size().
  Bytes slice(std::size_t offset, std::size_t size) const;

 private:
  std::span<const std::byte> data_;
  std::shared_ptr<const void> owner_;
};

}  // namespace millrace::io
