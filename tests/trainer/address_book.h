// AddressBook: addresses that stand for memory elsewhere.
//
// The pages at those addresses are PROT_NONE: code that dereferences one instead of calling its
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

/// `Storage` is what an address stands for: `storage.part(offset, count)` is a part of it.
template <typename Storage>
class AddressBook {
 public:
  /// Addresses for `floats` floats of `storage`, released with the buffer.
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
    return {{begin, floats}, std::shared_ptr<void>(pages, release)};
  }

  /// The storage that `span` stands for.
  auto find(trainer::DeviceSpan span) const {
    using Part = decltype(std::declval<Storage>().part(0, 0));
    if (span.empty()) return Part{};
    const std::lock_guard lock(table_->mutex);
    auto after = table_->entries.upper_bound(span.address());
    MILLRACE_CHECK(after != table_->entries.begin(), "an address that nobody was given");
    const auto& [begin, entry] = *--after;
    const std::size_t offset = (span.address() - begin) / sizeof(float);
    MILLRACE_CHECK(offset + span.size() <= entry.second, "a span past its buffer's end");
    return entry.first.part(offset, span.size());
  }

 private:
  struct Table {
    std::mutex mutex;
    std::map<std::uintptr_t, std::pair<Storage, std::size_t>> entries;
  };
  std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

}  // namespace millrace::testing
