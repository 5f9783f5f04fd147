#include "trainer/pjrt/flat_buffer.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"

namespace millrace::trainer {

FlatBuffer& FlatBuffer::of(DeviceSpan span) {
  // The handle is the address that handle() made it of.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return *reinterpret_cast<FlatBuffer*>(static_cast<std::uintptr_t>(span.buffer()));
}

BufferHandle FlatBuffer::handle() { return BufferHandle{reinterpret_cast<std::uintptr_t>(this)}; }

void FlatBuffer::read(std::size_t offset, std::span<float> to) {
  const std::scoped_lock lock(mutex_);
  fetch();
  std::copy_n(host_.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
}

void FlatBuffer::write(std::size_t offset, std::span<const float> from) {
  const std::scoped_lock lock(mutex_);
  if (from.size() < host_.size()) fetch();
  std::ranges::copy(from, host_.begin() + static_cast<std::ptrdiff_t>(offset));
  is_host_current_ = true;
  devices_.clear();
}

void FlatBuffer::swap(FlatBuffer& a, FlatBuffer& b) {
  if (&a == &b) return;
  const std::scoped_lock lock(a.mutex_, b.mutex_);
  std::swap(a.host_, b.host_);
  std::swap(a.is_host_current_, b.is_host_current_);
  std::swap(a.table_, b.table_);
  std::swap(a.devices_, b.devices_);
}

// All devices have the same values.
void FlatBuffer::fetch() {
  if (is_host_current_) return;
  read_table(*table_, devices_.begin()->second, host_);
  is_host_current_ = true;
}

const DeviceArrays& FlatBuffer::on(const device::pjrt::Client& client, std::size_t device,
                                   const ParameterTable& table) {
  const std::scoped_lock lock(mutex_);
  const auto known = devices_.find(device);
  if (known != devices_.end()) return known->second;
  MILLRACE_CHECK(host_.size() == table.padded_size(), "a buffer of its table's size");
  fetch();
  table_ = &table;
  return devices_.emplace(device, copy_table(client, device, table, host_)).first->second;
}

void FlatBuffer::replace(std::size_t device, DeviceArrays arrays) {
  const std::scoped_lock lock(mutex_);
  is_host_current_ = false;
  devices_.insert_or_assign(device, std::move(arrays));
}

DeviceArrays copy_table(const device::pjrt::Client& client, std::size_t device,
                        const ParameterTable& table, std::span<const float> flat) {
  DeviceArrays arrays;
  for (const Parameter& entry : table.entries())
    arrays.push_back(
        copy_floats(client, device, flat.subspan(entry.offset, entry.size), entry.shape));
  return arrays;
}

void read_table(const ParameterTable& table, const DeviceArrays& arrays, std::span<float> flat) {
  const auto& entries = table.entries();
  for (std::size_t i = 0; i < entries.size(); ++i)
    arrays[i].read(std::as_writable_bytes(flat.subspan(entries[i].offset, entries[i].size)));
}

device::pjrt::Buffer copy_floats(const device::pjrt::Client& client, std::size_t device,
                                 std::span<const float> values,
                                 const std::vector<std::int64_t>& shape) {
  const decode::ArraySpec spec{.dtype = decode::DType::kFloat32, .shape = shape};
  return client.copy_in(device, {.spec = spec, .data = std::as_bytes(values)});
}

}  // namespace millrace::trainer
