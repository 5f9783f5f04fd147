#include "wds/parquet_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "io/base/error.h"
#include "wds/row_table.h"

namespace millrace::wds {
namespace {

constexpr std::string_view kSuffix = ".parquet";
constexpr std::string_view kMagic = "PAR1";
// More are no count but damage.
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 40U;

/// Where the name of the file ends, a query included; npos if it is no Parquet file's.
std::size_t end_of_name(std::string_view url) {
  if (io::is_stream_url(std::string(url))) return url.npos;
  const bool network = io::is_network_url(std::string(url));
  const auto is_name = [&](std::string_view name) {
    return name.ends_with(kSuffix) ||
           (network && name.substr(0, name.find('?')).ends_with(kSuffix));
  };
  const std::size_t hash = url.rfind('#');
  if (!url.ends_with(kSuffix) && hash != url.npos && is_name(url.substr(0, hash))) return hash;
  return is_name(url) ? url.size() : url.npos;
}

void read_fully(io::ByteSource& source, std::span<std::byte> into) {
  while (!into.empty()) {
    const std::size_t got = source.read(into);
    if (got == 0)
      throw Error(ErrorCode::kTruncated, "the file ends inside of what its footer lists",
                  {.offset = source.position()});
    into = into.subspan(got);
  }
}

/// Each range by an opening of its own, which a server is asked exactly that for.
class ObjectRanges final : public RowRanges {
 public:
  ObjectRanges(const io::Opener& opener, std::string url, std::stop_token stop)
      : opener_(opener), url_(std::move(url)), stop_(std::move(stop)) {
    std::array<std::byte, kMagic.size()> first{};
    const auto source = opener_.open(url_, {.expected = first.size(), .stop = stop_});
    read_fully(*source, first);
    if (std::string_view(reinterpret_cast<const char*>(first.data()), first.size()) != kMagic)
      throw Error(ErrorCode::kCorrupt, "no Parquet file: it does not begin with PAR1");
    if (!source->size())
      throw Error(ErrorCode::kUnsupported, "a Parquet file of unknown size cannot be read");
    size_ = *source->size();
    version_ = source->version();
  }

  std::uint64_t size() const override { return size_; }

  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    if (into.empty()) return;
    const auto source =
        opener_.open(url_, {.offset = offset, .expected = into.size(), .stop = stop_});
    read_fully(*source, into);
    if (source->size() != size_ || source->version() != version_)
      throw Error(ErrorCode::kIo, "the file changed while it was read");
  }

 private:
  const io::Opener& opener_;
  const std::string url_;
  const std::stop_token stop_;
  std::uint64_t size_ = 0;
  std::string version_;
};

template <typename Work>
auto with_url(const std::string& url, const Work& work) {
  try {
    return work();
  } catch (Error& error) {
    error.annotate({.url = stored_url(url)});
    throw;
  }
}

}  // namespace

bool is_parquet(std::string_view url) { return end_of_name(url) != url.npos; }

std::string stored_url(const std::string& url) { return url.substr(0, end_of_name(url)); }

std::string_view column_choice(std::string_view url) {
  return url.substr(std::min(url.size(), end_of_name(url)));
}

std::unique_ptr<RowTable> open_parquet(const io::Opener& opener, const std::string& url,
                                       const std::stop_token& stop) {
  return with_url(url, [&] {
    return open_parquet_table(std::make_shared<const ObjectRanges>(opener, stored_url(url), stop));
  });
}

std::uint64_t num_rows(const RowTable& table) {
  std::uint64_t rows = 0;
  for (const std::uint64_t more : table.group_rows()) {
    if (more > kMostRows - rows)
      throw Error(ErrorCode::kCorrupt, fmt::format("more than {} rows", kMostRows));
    rows += more;
  }
  return rows;
}

std::uint64_t count_rows(const io::Opener& opener, const std::string& url,
                         const std::stop_token& stop) {
  const auto table = open_parquet(opener, url, stop);
  return with_url(url, [&] { return num_rows(*table); });
}

}  // namespace millrace::wds
