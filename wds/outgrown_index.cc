#include "wds/outgrown_index.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>

#include "io/base/error.h"
#include "io/local_path.h"
#include "io/opener.h"

namespace millrace::wds {
namespace {

std::optional<std::uint64_t> local_bytes(const std::string& url) {
  const auto path = io::local_path(url);
  if (!path || io::is_read_once(url)) return {};
  std::error_code none;
  const std::uintmax_t bytes = std::filesystem::file_size(*path, none);
  if (none) return {};
  return bytes;
}

/// By the first response, which has come once a byte has been read.
std::optional<std::uint64_t> distant_bytes(const io::Opener& opener, const std::string& url,
                                           const std::stop_token& stop) {
  try {
    const auto source = opener.open(url, {.expected = 1, .stop = stop});
    std::array<std::byte, 1> first = {};
    static_cast<void>(source->read(first));
    return source->size();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    return {};
  }
}

}  // namespace

bool outgrows_index(const std::string& url, const ShardIndex& index) {
  return local_bytes(url).value_or(0) > index.bytes;
}

void check_not_outgrown(const io::Opener& opener, const std::string& url, const ShardIndex& index,
                        const std::stop_token& stop) {
  const auto bytes = io::is_network_url(url) ? distant_bytes(opener, url, stop) : local_bytes(url);
  if (bytes.value_or(0) > index.bytes)
    throw Error(ErrorCode::kCorrupt,
                "the shard is longer than the " + std::to_string(index.bytes) +
                    " bytes that its index is of: index it again (index --force)",
                {.url = io::printable_url(url)});
}

}  // namespace millrace::wds
