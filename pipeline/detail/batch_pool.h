// BatchPool: recycled buffers for batches, all of one size, 64-byte aligned.
//
// A buffer goes back with its last share, from any thread, also after the pool has gone.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace millrace::pipeline::detail {

class BatchPool {
 public:
  /// Keeps at most `max_kept` free buffers of `buffer_bytes`.
  BatchPool(std::size_t buffer_bytes, std::size_t max_kept);
  ~BatchPool();

  /// A free buffer, or a new one. Its content is whatever its last user left.
  std::shared_ptr<std::byte> acquire();
  std::size_t buffer_bytes() const;
  /// Buffers in use or kept, times their size.
  std::size_t held_bytes() const;
  /// The most that held_bytes() was.
  std::size_t peak_bytes() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace millrace::pipeline::detail
