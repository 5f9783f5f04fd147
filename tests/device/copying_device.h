// CopyingDevice: a device with memory of its own, to which batches are copied asynchronously, as by
// a GPU's copy engine. A test can delay the copies, and make one fail.
//
// Threads: any.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "device/cpu_device.h"
#include "io/base/error.h"
#include "io/base/thread_annotations.h"

namespace millrace::testing {

class CopyingDevice final : public device::Device {
 public:
  explicit CopyingDevice(int index)
      : name_("copying:" + std::to_string(index)), thread_({.index = index}) {}

  int index() const override { return thread_.index(); }
  const std::string& name() const override { return name_; }
  std::future<void> submit(std::function<void()> work) override {
    return thread_.submit(std::move(work));
  }
  std::future<device::DeviceBatch> land(pipeline::Batch batch,
                                        const device::Landing& landing) override {
    const int number = count(begun_);
    return std::async(std::launch::async,
                      [this, number, landing, batch = std::move(batch)]() mutable {
                        return copy(number, std::move(batch), landing);
                      });
  }

  /// Copies wait from now on until release().
  void hold() { set_held(true); }
  void release() { set_held(false); }
  /// The landing with this number, from 0, fails.
  void fail_at(int landing) {
    MutexLock lock(mutex_);
    fails_at_ = landing;
  }

  int begun() const { return read(begun_); }
  int landed() const { return read(landed_); }
  /// Whether `data` points into the device's memory.
  bool holds(std::span<const std::byte> data) const {
    MutexLock lock(memory_->mutex);
    return std::ranges::any_of(memory_->blocks, [&](const auto& block) {
      return data.data() >= block.first && data.data() + data.size() <= block.first + block.second;
    });
  }

 private:
  struct Memory {
    Mutex mutex;
    std::map<const std::byte*, std::size_t> blocks MILLRACE_GUARDED_BY(mutex);
  };

  device::DeviceBatch copy(int number, device::DeviceBatch batch, const device::Landing& landing) {
    {
      MutexLock lock(mutex_);
      while (held_) changed_.wait(lock);
      if (number == fails_at_) throw Error(ErrorCode::kIo, "the copy failed");
    }
    std::size_t size = 0;
    for (const pipeline::BatchField& field : batch.fields)
      if (landing.moves(field.name)) size += field.data.size();
    const std::shared_ptr<std::byte> block = allocate(size);
    std::byte* to = block.get();
    for (pipeline::BatchField& field : batch.fields) {
      if (!landing.moves(field.name)) continue;
      std::memcpy(to, field.data.data(), field.data.size());
      field.data = {to, field.data.size()};
      to += field.data.size();
    }
    if (landing.stays.empty()) {
      batch.owner = block;
    } else {
      batch.owner = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(
          block, batch.owner);
    }
    count(landed_);
    return batch;
  }

  std::shared_ptr<std::byte> allocate(std::size_t size) const {
    auto* data = new std::byte[size];
    {
      MutexLock lock(memory_->mutex);
      memory_->blocks[data] = size;
    }
    return {data, [memory = memory_](std::byte* block) {
              {
                MutexLock lock(memory->mutex);
                memory->blocks.erase(block);
              }
              delete[] block;
            }};
  }

  void set_held(bool held) {
    {
      MutexLock lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
  /// The number before.
  int count(int& counter) {
    MutexLock lock(mutex_);
    return counter++;
  }
  int read(const int& counter) const {
    MutexLock lock(mutex_);
    return counter;
  }

  const std::string name_;
  const std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  bool held_ MILLRACE_GUARDED_BY(mutex_) = false;
  int fails_at_ MILLRACE_GUARDED_BY(mutex_) = -1;
  int begun_ = 0;   ///< guarded by mutex_
  int landed_ = 0;  ///< guarded by mutex_
  device::CpuDevice thread_;
};

}  // namespace millrace::testing
