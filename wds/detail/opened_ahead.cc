#include "wds/detail/opened_ahead.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "io/base/error.h"

namespace millrace::wds::detail {
namespace {

// A shard's first sample may lie behind the entry of a folder.
constexpr std::uint64_t kMostDropped = std::uint64_t{64} * 1024;

// Whether the source has so many bytes.
bool drop(io::ByteSource& source, std::uint64_t bytes) {
  std::array<std::byte, 4096> dropped;
  while (bytes > 0) {
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, dropped.size()));
    const std::size_t got = source.read(std::span(dropped).first(most));
    if (got == 0) return false;
    bytes -= got;
  }
  return true;
}

}  // namespace

OpenedAhead::OpenedAhead(const io::Opener& opener, const std::string& url,
                         const io::OpenOptions& options)
    : opener_(opener), url_(url), options_(options) {
  try {
    source_ = opener.open(url, options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    fault_ = std::current_exception();
  }
}

std::unique_ptr<io::ByteSource> OpenedAhead::open(const std::string& url,
                                                  const io::OpenOptions& options) const {
  if (url != url_) return opener_.open(url, options);
  auto ahead = std::exchange(source_, nullptr);
  const bool fits = options.expected == options_.expected && options.offset >= options_.offset &&
                    options.offset - options_.offset <= kMostDropped;
  if (fault_ && fits) std::rethrow_exception(std::exchange(fault_, nullptr));
  const bool there = ahead && fits && drop(*ahead, options.offset - options_.offset);
  return there ? std::move(ahead) : opener_.open(url, options);
}

}  // namespace millrace::wds::detail
