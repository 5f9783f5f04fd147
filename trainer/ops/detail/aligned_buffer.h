// AlignedBuffer: zeroed bytes for vectors and huge pages.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace millrace::trainer::ops {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    const std::size_t alignment = bytes >= kHugePage ? kHugePage : 64;
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
    if (!data_) throw std::bad_alloc();
    // Gigabytes of activations in 4 KiB pages cost a few percent in address translation.
    if (alignment == kHugePage) ::madvise(data_.get(), rounded, MADV_HUGEPAGE);
    std::memset(data_.get(), 0, rounded);
  }

  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return bytes_; }

 private:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace millrace::trainer::ops
