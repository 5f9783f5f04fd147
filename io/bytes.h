// Bytes: a run of immutable bytes and shared ownership of what holds them.
//
// A copy or a slice costs one reference count, never a copy of the data. Lifetime: the data lives
// as long as any Bytes refers to it.
//
//   Bytes all = Bytes::take(std::move(vector));
//   Bytes head = all.slice(0, 512);
//
// Threads: a value type; the data may be read from any thread.
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

  /// Refers to `data`, which `owner` keeps alive and nobody changes.
  Bytes(std::span<const std::byte> data, std::shared_ptr<const void> owner)
      : data_(data), owner_(std::move(owner)) {}

  static Bytes copy_of(std::span<const std::byte> data);
  static Bytes copy_of(std::string_view text);
  static Bytes take(std::vector<std::byte> data);

  const std::byte* data() const { return data_.data(); }
  std::size_t size() const { return data_.size(); }
  bool empty() const { return data_.empty(); }
  std::span<const std::byte> span() const { return data_; }
  /// The same bytes as text; valid as long as any Bytes refers to the data.
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data_.data()), data_.size()};
  }
  /// `size` bytes from `offset`. Requires: offset + size <= this->size(); aborts otherwise.
  Bytes slice(std::size_t offset, std::size_t size) const;

 private:
  std::span<const std::byte> data_;
  std::shared_ptr<const void> owner_;
};

}  // namespace millrace::io
