#include "pipeline/detail/batch_pool.h"

#include <algorithm>
#include <new>
#include <vector>

#include "io/base/thread_annotations.h"
#include "pipeline/detail/meters.h"

namespace millrace::pipeline::detail {
namespace {

constexpr std::size_t kAlignment = 64;

struct AlignedDelete {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{kAlignment}); }
};
using AlignedBuffer = std::unique_ptr<std::byte, AlignedDelete>;

AlignedBuffer allocate(std::size_t bytes) {
  return AlignedBuffer(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment})));
}

}  // namespace

struct BatchPool::Shared {
  Shared(std::size_t bytes, std::size_t kept)
      : buffer_bytes(std::max<std::size_t>(bytes, 1)), max_kept(kept) {}

  void give_back(AlignedBuffer buffer) {
    MutexLock lock(mutex);
    if (!closed && free.size() < max_kept) {
      free.push_back(std::move(buffer));
    } else {
      held.subtract(buffer_bytes);
    }
  }

  const std::size_t buffer_bytes;
  const std::size_t max_kept;
  ByteGauge held;
  Mutex mutex;
  std::vector<AlignedBuffer> free MILLRACE_GUARDED_BY(mutex);
  bool closed MILLRACE_GUARDED_BY(mutex) = false;
};

BatchPool::BatchPool(std::size_t buffer_bytes, std::size_t max_kept)
    : shared_(std::make_shared<Shared>(buffer_bytes, max_kept)) {}

BatchPool::~BatchPool() {
  MutexLock lock(shared_->mutex);
  shared_->closed = true;
  shared_->free.clear();
}

std::shared_ptr<std::byte> BatchPool::acquire() {
  AlignedBuffer buffer;
  {
    MutexLock lock(shared_->mutex);
    if (!shared_->free.empty()) {
      buffer = std::move(shared_->free.back());
      shared_->free.pop_back();
    }
  }
  if (!buffer) {
    buffer = allocate(shared_->buffer_bytes);
    shared_->held.add(shared_->buffer_bytes);
  }
  std::byte* data = buffer.release();
  return {data, [shared = shared_](std::byte* used) { shared->give_back(AlignedBuffer(used)); }};
}

std::size_t BatchPool::buffer_bytes() const { return shared_->buffer_bytes; }
std::size_t BatchPool::held_bytes() const { return shared_->held.held(); }
std::size_t BatchPool::peak_bytes() const { return shared_->held.peak(); }

}  // namespace millrace::pipeline::detail
