#include "wds/outgrown_index.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <system_error>

#include "io/base/error.h"
#include "io/local_path.h"
#include "io/opener.h"
#include "wds/detail/header_blocks.h"

namespace millrace::wds {
namespace {

using HeaderBlock = std::array<std::byte, detail::kBlockBytes>;

std::optional<std::uint64_t> local_bytes(const std::string& url) {
  const auto path = io::local_path(url);
  if (!path || io::is_read_once(url)) return {};
  std::error_code none;
  const std::uintmax_t bytes = std::filesystem::file_size(*path, none);
  if (none) return {};
  return bytes;
}

/// Null if that is refused: whoever reads the shard says why.
template <typename Ask>
auto answer_of(const Ask& ask) -> decltype(ask()) {
  try {
    return ask();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    return {};
  }
}

[[noreturn]] void other_than_indexed(const std::string& url, const std::string& what) {
  throw Error(ErrorCode::kCorrupt, what, {.url = url});
}

std::string bytes_of_index(const ShardIndex& index, const std::string& url) {
  const std::string name = io::printable_url(index_url(url));
  return fmt::format("the {} bytes that its index, {}, is of", index.bytes,
                     name.substr(name.find_last_of('/') + 1));
}

/// Where the last sample is listed; nullopt where that is no place in what is stored.
std::optional<std::uint64_t> last_place(const ShardIndex& index) {
  const bool is_packed = index.bytes < index.end;
  if (is_packed || index.samples.empty()) return {};
  return index.samples.back().offset;
}

struct Glimpse {
  std::optional<std::uint64_t> bytes = {};
  std::optional<HeaderBlock> block = {};  ///< at last_place()
};

Glimpse glimpse(const io::Opener& opener, const std::string& url, std::uint64_t offset,
                const std::stop_token& stop) {
  return answer_of([&]() -> Glimpse {
    const auto source =
        opener.open(url, {.offset = offset, .expected = sizeof(HeaderBlock), .stop = stop});
    HeaderBlock block = {};
    std::size_t used = 0;
    while (used < block.size()) {
      const std::size_t got = source->read(std::span(block).subspan(used));
      if (got == 0) return {.bytes = source->size()};
      used += got;
    }
    return {.bytes = source->size(), .block = block};
  });
}

}  // namespace

StoredSize::StoredSize(const io::Opener& opener, const std::string& url,
                       const std::stop_token& stop) {
  if (!io::is_network_url(url)) {
    bytes_ = local_bytes(url);
    return;
  }
  source_ = answer_of([&] { return opener.open(url, {.expected = 1, .stop = stop}); });
}

/// By the first response, which has come once a byte has been read.
std::optional<std::uint64_t> StoredSize::get() {
  if (!source_) return bytes_;
  bytes_ = answer_of([this] {
    std::array<std::byte, 1> first = {};
    static_cast<void>(source_->read(first));
    return source_->size();
  });
  source_.reset();
  return bytes_;
}

void check_size(const std::string& url, const ShardIndex& index,
                const std::optional<std::uint64_t>& bytes, IfShorter if_shorter) {
  if (!bytes || *bytes == index.bytes) return;
  if (*bytes > index.bytes)
    other_than_indexed(url, fmt::format("the shard is longer than {}: index it again (index "
                                        "--force)",
                                        bytes_of_index(index, url)));
  if (if_shorter == IfShorter::kReadOn) return;
  other_than_indexed(url, fmt::format("the shard has {} bytes, fewer than {}: it is cut short, or "
                                      "was written anew and is to be indexed again (index --force)",
                                      *bytes, bytes_of_index(index, url)));
}

void check_as_listed(const io::Opener& opener, const std::string& url, const ShardIndex& index,
                     const std::stop_token& stop) {
  const auto place = last_place(index);
  const bool is_stored = io::is_network_url(url) || local_bytes(url);
  if (!place || !is_stored) return check_size(url, index, StoredSize(opener, url, stop).get());
  Glimpse seen = glimpse(opener, url, *place, stop);
  if (!seen.bytes) seen.bytes = StoredSize(opener, url, stop).get();  // it ends before that place
  check_size(url, index, seen.bytes);
  if (seen.block && !detail::has_header_checksum(*seen.block))
    other_than_indexed(url,
                       fmt::format("there is no member at byte {}, where the last sample of "
                                   "{} begins: the shard was written anew and is to be indexed "
                                   "again (index --force), or is damaged",
                                   *place, bytes_of_index(index, url)));
}

}  // namespace millrace::wds
