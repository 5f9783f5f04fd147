#include "io/byte_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "io/base/error.h"

namespace millrace::io {

Bytes read_all(ByteSource& source, std::size_t limit_bytes) {
  // Beyond that it grows with the bytes received, never with the size that an object claims.
  constexpr std::uint64_t kMostClaimed = std::uint64_t{1} << 20U;
  constexpr std::uint64_t kUsual = std::uint64_t{64} << 10U;
  const std::uint64_t first = std::min(source.size().value_or(kUsual), kMostClaimed) + 1;
  std::vector<std::byte> data;
  std::size_t used = 0;
  for (;;) {
    if (used == data.size()) data.resize(std::max<std::size_t>(first, data.size() * 2));
    const std::size_t got = source.read(std::span(data).subspan(used));
    if (got == 0) break;
    used += got;
    if (used > limit_bytes) {
      throw Error(ErrorCode::kExhausted,
                  "larger than the limit of " + std::to_string(limit_bytes) + " bytes",
                  {.url = source.url()});
    }
  }
  data.resize(used);
  return Bytes::take(std::move(data));
}

}  // namespace millrace::io
