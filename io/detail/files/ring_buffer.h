// RingBuffer: bytes between one writer and one reader. Both may copy without holding the lock that
// guards the counters: the writer owns the free part, the reader the filled part.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

namespace millrace::io::detail {

class RingBuffer {
 public:
  explicit RingBuffer(std::size_t capacity)
      : capacity_(capacity), data_(std::make_unique_for_overwrite<std::byte[]>(capacity)) {}

  std::size_t capacity() const { return capacity_; }
  std::size_t size() const { return size_; }
  std::size_t space() const { return capacity_ - size_; }

  /// The writer: a free run of at most `wanted` bytes.
  std::span<std::byte> free_run(std::size_t wanted) {
    // Restart at the beginning whenever it is empty: a reader that keeps up then stays in the
    // cache.
    if (size_ == 0) head_ = 0;
    const std::size_t tail = (head_ + size_) % capacity_;
    return {data_.get() + tail, std::min({wanted, space(), capacity_ - tail})};
  }
  void filled(std::size_t count) { size_ += count; }

  /// The reader: a filled run of at most `wanted` bytes.
  std::span<const std::byte> filled_run(std::size_t wanted) const {
    return {data_.get() + head_, std::min({wanted, size_, capacity_ - head_})};
  }
  void taken(std::size_t count) {
    head_ = (head_ + count) % capacity_;
    size_ -= count;
  }

 private:
  std::size_t capacity_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> data_;
};

}  // namespace millrace::io::detail
