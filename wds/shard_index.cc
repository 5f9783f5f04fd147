#include "wds/shard_index.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/url_text.h"
#include "io/opener.h"
#include "wds/detail/index_text.h"
#include "wds/detail/write_text.h"
#include "wds/hashing_opener.h"
#include "wds/parquet_shard.h"

namespace millrace::wds {
namespace {

constexpr std::size_t kMaxIndexBytes = std::size_t{1024} * 1024 * 1024;

IndexedSample indexed(const Sample& sample, std::span<const std::uint32_t> header_crcs) {
  IndexedSample entry{.key = sample.key, .offset = sample.offset, .members = {}};
  for (std::size_t i = 0; i < sample.fields.size(); ++i) {
    const Field& field = sample.fields[i];
    entry.members.push_back({.suffix = field.suffix,
                             .offset = field.offset,
                             .size = field.data.size(),
                             .crc32 = crc32(field.data.span()),
                             .header_crc32 = header_crcs[i]});
    entry.num_bytes += field.data.size();
  }
  return entry;
}

/// The result of `read`. A corrupt result may have been damaged on the network: then it is read
/// once more, and the second result counts.
template <typename Read>
auto twice_over_network(const std::string& url, const Read& read, bool* again = nullptr) {
  try {
    try {
      return read();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCorrupt || !io::is_network_url(url)) throw;
    }
    auto second = read();
    if (again != nullptr) *again = true;
    return second;
  } catch (Error& error) {
    error.annotate({.url = url});
    throw;
  }
}

// In the first bytes; nullopt if there is no index.
std::optional<IndexHead> head_at(const io::Opener& opener, const std::string& url,
                                 const std::stop_token& stop) {
  constexpr std::size_t kHeadBytes = 1024;
  std::string begin(kHeadBytes, '\0');
  std::uint64_t index_bytes = kMaxIndexBytes;
  try {
    const auto source = opener.open(url, {.expected = kHeadBytes, .stop = stop});
    std::size_t used = 0;
    const auto bytes = std::as_writable_bytes(std::span(begin));
    while (used < kHeadBytes) {
      const std::size_t got = source->read(bytes.subspan(used));
      if (got == 0) break;
      used += got;
    }
    index_bytes = source->size().value_or(index_bytes);
  } catch (const Error& error) {
    if (cannot_be_seen(error)) return {};
    throw;
  }
  auto head = detail::head_of_index(begin);
  if (!head) throw Error(ErrorCode::kCorrupt, "index: has no count");
  // Each sample takes several bytes of the index.
  if (head->count > index_bytes)
    throw Error(ErrorCode::kCorrupt, "index: counts more than it holds");
  return head;
}

}  // namespace

std::size_t ShardIndex::sample_at(std::uint64_t offset) const {
  const auto found = std::lower_bound(
      samples.begin(), samples.end(), offset,
      [](const IndexedSample& sample, std::uint64_t wanted) { return sample.offset < wanted; });
  return static_cast<std::size_t>(found - samples.begin());
}

std::string index_url(const std::string& url) {
  const std::size_t query = io::query_begin(url);
  std::string index = url.substr(0, query) + ".index.json";
  if (query != std::string::npos) index += url.substr(query);
  return index;
}

ShardIndex build_index(const io::Opener& opener, const std::string& url,
                       const ShardOptions& options) {
  if (is_parquet(url))
    throw Error(ErrorCode::kUnsupported, "a Parquet file needs no index: its footer has the counts",
                {.url = url});
  const HashingOpener hashing(opener);
  ShardOptions wanted = options;
  wanted.index = nullptr;
  wanted.suffixes.clear();
  wanted.offset = 0;
  wanted.tar.header_checksums = true;
  ShardReader reader(hashing, url, wanted);
  ShardIndex index;
  for (Sample sample; reader.next(sample);) {
    index.samples.push_back(indexed(sample, reader.header_crcs()));
  }
  index.end = reader.end_offset();
  std::tie(index.bytes, index.sha256) = hashing.finish(opener, url);
  return index;
}

ShardIndex read_index(const io::Opener& opener, const std::string& url, const std::stop_token& stop,
                      bool* again, IndexParts parts) {
  const auto read = [&] {
    const io::Bytes file = io::read_object(opener, url, kMaxIndexBytes, stop);
    detail::check_seal(file.text());
    return detail::parse_index(file.text(), parts);
  };
  return twice_over_network(url, read, again);
}

std::shared_ptr<const ShardIndex> find_index(const io::Opener& opener, const std::string& shard_url,
                                             const std::stop_token& stop, bool* again,
                                             IndexParts parts) {
  if (io::is_stream_url(shard_url) || is_parquet(shard_url)) return nullptr;
  try {
    auto index = std::make_shared<const ShardIndex>(
        read_index(opener, index_url(shard_url), stop, again, parts));
    if (!index->sha256.empty()) opener.expect_digest(shard_url, index->sha256);
    return index;
  } catch (const Error& error) {
    if (cannot_be_seen(error)) return nullptr;
    throw;
  }
}

std::shared_ptr<const ShardIndex> usable_index(const io::Opener& opener,
                                               const std::string& shard_url, FaultLedger& ledger,
                                               const std::stop_token& stop, IndexParts parts) {
  const Where shard{.url = io::printable_url(shard_url)};
  const bool required = ledger.policy().require_index;
  try {
    bool again = false;
    auto index = find_index(opener, shard_url, stop, &again, parts);
    if (again) ledger.count_refetched(index_url(shard_url));
    if (!index && required) throw Error(ErrorCode::kNotFound, "shard has no index", shard);
    return index;
  } catch (const Error& error) {
    if (required || error.code() == ErrorCode::kCancelled) throw;
    ledger.warn(shard, "a damaged index is not used, and its shard read without it", error.what());
    return nullptr;
  }
}

std::optional<IndexHead> read_index_head(const io::Opener& opener, const std::string& url,
                                         const std::stop_token& stop) {
  return twice_over_network(url, [&] { return head_at(opener, url, stop); });
}

void write_index(const ShardIndex& index, const std::string& path, io::Replace replace,
                 const io::Opener* opener) {
  detail::write_text(opener, path, replace, detail::sealed(detail::index_text(index)));
}

namespace {

void check_dali_name(const IndexedMember& member, const std::string& name) {
  const char* reason = nullptr;
  if (name.find_first_of(" \t\n\v\f\r") != std::string::npos) reason = "white space in its name";
  if (member.suffix.empty()) reason = "no suffix";
  if (reason == nullptr) return;
  throw Error(ErrorCode::kUnsupported,
              std::string("DALI's index cannot hold a member with ") + reason,
              {.member = name, .offset = member.offset});
}

}  // namespace

// "v1.2 COUNT", then one line per sample: "SUFFIX OFFSET SIZE NAME" for each member.
void write_dali_index(const ShardIndex& index, const std::string& path, io::Replace replace,
                      const io::Opener* opener) {
  std::string text = "v1.2 " + std::to_string(index.samples.size()) + "\n";
  for (const IndexedSample& sample : index.samples) {
    std::string line;
    for (const IndexedMember& member : sample.members) {
      const std::string name = sample.key + "." + member.suffix;
      check_dali_name(member, name);
      line += (line.empty() ? "" : " ") + member.suffix + " " + std::to_string(member.offset) +
              " " + std::to_string(member.size) + " " + name;
    }
    text += line + "\n";
  }
  detail::write_text(opener, path, replace, text);
}

}  // namespace millrace::wds
