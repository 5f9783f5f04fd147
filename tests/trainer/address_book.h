// AddressBook: buffers' handles that stand for memory elsewhere.
//
// A handle is the address of PROT_NONE pages: code that dereferences it instead of calling its
// backend ends the program.
//
// Threads: any.
#pragma once

#include <sys/mman.h>

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "io/base/check.h"
#include "trainer/device_span.h"

namespace millrace::testing {

/// `Storage` is what a handle stands for: `storage.part(offset, count)` is a part of it.
template <typename Storage>
class AddressBook {
 public:
  /// A handle for `floats` floats of `storage`, released with the buffer.
  trainer::DeviceBuffer add(Storage storage, std::size_t floats) {
    if (floats == 0) return {};
    const std::size_t bytes = floats * sizeof(float);
    void* pages = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    const auto begin = reinterpret_cast<std::uintptr_t>(pages);
    {
      const std::lock_guard lock(table_->mutex);
      table_->entries.emplace(begin, std::pair(std::move(storage), floats));
    }
    const auto release = [table = table_, bytes](void* memory) {
      const std::lock_guard lock(table->mutex);
      table->entries.erase(reinterpret_cast<std::uintptr_t>(memory));
      ::munmap(memory, bytes);
    };
    return {{trainer::BufferHandle(begin), 0, floats}, std::shared_ptr<void>(pages, release)};
  }

  /// The storage that `span` stands for.
  auto find(trainer::DeviceSpan span) const {
    using Part = decltype(std::declval<Storage>().part(0, 0));
    if (span.empty()) return Part{};
    const std::lock_guard lock(table_->mutex);
    const auto found = table_->entries.find(static_cast<std::uintptr_t>(span.buffer()));
    MILLRACE_CHECK(found != table_->entries.end(), "a handle that nobody was given");
    const auto& [storage, floats] = found->second;
    MILLRACE_CHECK(span.offset() + span.size() <= floats, "a span past its buffer's end");
    return storage.part(span.offset(), span.size());
  }

 private:
  struct Table {
    std::mutex mutex;
    std::map<std::uintptr_t, std::pair<Storage, std::size_t>> entries;
  };
  std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

}  // namespace millrace::testing
