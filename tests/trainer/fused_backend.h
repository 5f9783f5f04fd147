// FusedBackend: a backend that makes one program of a whole step, as a compiler does: nothing runs
// before the step is complete, and then forward, loss, backward, the sums over the ranks, the check
// for finite values, clipping, update and EMA are one. Gradients are nowhere to be seen; what
// changes is written to new buffers, the old ones are donated and may not be read again. The device
// takes its time: a step runs when the next one has been given, or when somebody waits for it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/trainer/address_book.h"
#include "trainer/backend.h"

namespace millrace::testing {

/// A buffer's values at present.
struct FusedBuffer {
  std::shared_ptr<std::vector<float>> values;
};

class FusedBackend final : public trainer::Backend {
 public:
  const std::string& name() const override { return name_; }
  trainer::DeviceBuffer allocate(std::size_t floats) override;
  void write(std::span<const float> from, trainer::DeviceSpan to) override;
  void read(trainer::DeviceSpan from, std::span<float> to) override;
  void copy(trainer::DeviceSpan from, trainer::DeviceSpan to) override;
  void swap(trainer::DeviceSpan a, trainer::DeviceSpan b) override;
  /// The losses' targets stay with the host.
  device::Landing landing(const trainer::Objective& objective) const override;
  std::unique_ptr<trainer::BackendReplica> make_replica(
      const trainer::ReplicaSetup& setup) override;

  /// The buffer that is `whole`.
  FusedBuffer& buffer(trainer::DeviceSpan whole);

  std::atomic<int> given = 0;   ///< steps that have not run yet
  std::atomic<int> forced = 0;  ///< steps that ran because somebody waited

 private:
  struct Part {
    FusedBuffer* buffer = nullptr;
    std::size_t offset = 0;
    std::size_t count = 0;
    std::span<float> values() const {
      if (buffer == nullptr) return {};
      return std::span(*buffer->values).subspan(offset, count);
    }
  };
  struct Storage {
    std::shared_ptr<FusedBuffer> buffer;
    Part part(std::size_t offset, std::size_t count) const { return {buffer.get(), offset, count}; }
  };

  /// Requires: no step that may change them is on its way.
  std::span<float> host(trainer::DeviceSpan span);

  std::string name_ = "fused";
  AddressBook<Storage> book_;
};

}  // namespace millrace::testing
