#include "io/bytes.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"

namespace millrace::io {

Bytes Bytes::copy_of(std::span<const std::byte> data) {
  // make_shared_for_overwrite: the bytes are overwritten at once and need no zeroing.
  auto owner = std::make_shared_for_overwrite<std::byte[]>(data.size());
  std::copy(data.begin(), data.end(), owner.get());
  const std::span<const std::byte> view(owner.get(), data.size());
  return {view, std::move(owner)};
}

Bytes Bytes::copy_of(std::string_view text) {
  return copy_of(std::as_bytes(std::span(text.data(), text.size())));
}

Bytes Bytes::take(std::vector<std::byte> data) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(data));
  const std::span<const std::byte> view(*owner);
  return {view, std::move(owner)};
}

Bytes Bytes::slice(std::size_t offset, std::size_t size) const {
  MILLRACE_CHECK(offset <= data_.size() && size <= data_.size() - offset,
                 "a slice lies inside its Bytes");
  return {data_.subspan(offset, size), owner_};
}

}  // namespace millrace::io
