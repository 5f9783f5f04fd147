#include "python/buffer_stock.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/thread_annotations.h"
#include "python/process_guard.h"

namespace millrace::python {

namespace nb = nanobind;

/// What the buffers share. take() and give_back() may be called without the GIL and leave every
/// count of a Python object as it is.
struct BufferStock::Kept {
  struct Entry {
    nb::object buffer;
    bool handed_out = false;
  };

  std::byte* take() {
    MutexLock lock(mutex);
    if (free.empty()) throw Error(ErrorCode::kExhausted, "no buffer is left for a batch");
    std::byte* taken = free.back();
    free.pop_back();
    return taken;
  }

  void give_back(std::byte* used) {
    MutexLock lock(mutex);
    if (closed || all.at(used).handed_out)
      drop(used);
    else
      free.push_back(used);
  }

  void drop(std::byte* buffer) MILLRACE_REQUIRES(mutex) {
    auto entry = all.extract(buffer);
    if (!entry.mapped().handed_out) --in_stock;
    dropped.push_back(std::move(entry.mapped().buffer));
  }

  Mutex mutex;
  std::map<std::byte*, Entry> all MILLRACE_GUARDED_BY(mutex);
  std::vector<std::byte*> free MILLRACE_GUARDED_BY(mutex);
  std::vector<nb::object> dropped MILLRACE_GUARDED_BY(mutex);  ///< for who has the GIL
  std::int64_t in_stock MILLRACE_GUARDED_BY(mutex) = 0;        ///< free, or in the pipeline
  bool closed MILLRACE_GUARDED_BY(mutex) = false;
};

BufferStock::BufferStock(nb::object allocate)
    : allocate_(std::move(allocate)), kept_(std::make_shared<Kept>()) {}

BufferStock::~BufferStock() { close(); }

bool BufferStock::open(const pipeline::BatchBuffers& need) {
  {
    MutexLock lock(kept_->mutex);
    kept_->closed = false;
  }
  if (need_.number == 0) {
    nb::object first = allocate_(need.bytes);
    if (first.is_none()) return false;
    add(std::move(first));
  }
  need_ = need;
  fill();
  return true;
}

void BufferStock::fill() {
  const auto is_full = [this] {
    MutexLock lock(kept_->mutex);
    return kept_->in_stock >= need_.number;
  };
  drain();
  while (!is_full()) add(allocate_(need_.bytes));
}

void BufferStock::add(nb::object buffer) {
  const nb::object address = buffer.attr("data_ptr")();
  auto* data = static_cast<std::byte*>(PyLong_AsVoidPtr(address.ptr()));
  if (data == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  MutexLock lock(kept_->mutex);
  const bool is_new = kept_->all.try_emplace(data, Kept::Entry{std::move(buffer)}).second;
  require(is_new, "the allocator returned memory that is in use");
  kept_->free.push_back(data);
  ++kept_->in_stock;
}

pipeline::AllocateBuffer BufferStock::taker() const {
  return [kept = kept_](std::size_t /*bytes*/) {
    return std::shared_ptr<std::byte>(kept->take(),
                                      [kept](std::byte* used) { kept->give_back(used); });
  };
}

nb::object BufferStock::hand_out(const pipeline::Batch& batch) {
  MutexLock lock(kept_->mutex);
  const auto entry = kept_->all.find(static_cast<std::byte*>(batch.owner.get()));
  if (entry == kept_->all.end()) return nb::none();
  if (!std::exchange(entry->second.handed_out, true)) --kept_->in_stock;
  return entry->second.buffer;
}

void BufferStock::drain() {
  std::vector<nb::object> dropped;  // goes without the lock: Python's code may run
  MutexLock lock(kept_->mutex);
  dropped.swap(kept_->dropped);
}

void BufferStock::close() {
  if (ProcessGuard::is_forked_child()) {
    static_cast<void>(new std::shared_ptr(std::move(kept_)));  // its lock may be held for ever
    return;
  }
  {
    MutexLock lock(kept_->mutex);
    kept_->closed = true;
    for (std::byte* buffer : std::exchange(kept_->free, {})) kept_->drop(buffer);
  }
  need_ = {};
  drain();
}

}  // namespace millrace::python
