#include "wds/shard_index.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>
#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/opener.h"
#include "wds/detail/hashing_opener.h"

namespace millrace::wds {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxIndexBytes = 1024 * 1024 * 1024;
constexpr int kVersion = 1;

[[noreturn]] void corrupt(const std::string& message) {
  throw Error(ErrorCode::kCorrupt, "index: " + message);
}

std::string hex(std::uint32_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(8, '0');
  for (std::size_t i = 8; i-- > 0; value >>= 4) text[i] = kDigits[value & 15U];
  return text;
}

std::uint32_t from_hex(const std::string& text) {
  std::uint32_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 8 || result.ptr != text.data() + 8) corrupt("'" + text + "' is no CRC-32");
  return value;
}

IndexedMember parse_member(const Json& json) {
  if (!json.is_array() || json.size() != 5) corrupt("a member has five parts");
  return {.suffix = json[0].get<std::string>(),
          .offset = json[1].get<std::uint64_t>(),
          .size = json[2].get<std::uint64_t>(),
          .crc32 = from_hex(json[3].get<std::string>()),
          .header_crc32 = from_hex(json[4].get<std::string>())};
}

IndexedSample parse_sample(const Json& json) {
  if (!json.is_array() || json.size() != 3 || !json[2].is_array()) {
    corrupt("a sample has a key, an offset and members");
  }
  IndexedSample sample{
      .key = json[0].get<std::string>(), .offset = json[1].get<std::uint64_t>(), .members = {}};
  for (const Json& member : json[2]) sample.members.push_back(parse_member(member));
  return sample;
}

ShardIndex parse_index(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) corrupt("is no JSON object");
  try {
    if (json.at("millrace_index") != kVersion) corrupt("is of another version");
    ShardIndex index{.bytes = json.at("bytes").get<std::uint64_t>(),
                     .end = json.at("end").get<std::uint64_t>(),
                     .sha256 = json.value("sha256", ""),
                     .samples = {}};
    for (const Json& sample : json.at("samples")) index.samples.push_back(parse_sample(sample));
    if (json.at("count") != index.samples.size()) corrupt("its count is wrong");
    const auto by_offset = [](const IndexedSample& a, const IndexedSample& b) {
      return a.offset < b.offset;
    };
    if (!std::is_sorted(index.samples.begin(), index.samples.end(), by_offset)) {
      corrupt("its samples are not in order");
    }
    return index;
  } catch (const Json::exception& error) {
    corrupt(error.what());
  }
}

Json to_json(const IndexedSample& sample) {
  Json members = Json::array();
  for (const IndexedMember& member : sample.members) {
    members.push_back(
        {member.suffix, member.offset, member.size, hex(member.crc32), hex(member.header_crc32)});
  }
  return Json::array({sample.key, sample.offset, std::move(members)});
}

IndexedSample indexed(const Sample& sample, std::span<const std::uint32_t> header_crcs) {
  IndexedSample entry{.key = sample.key, .offset = sample.offset, .members = {}};
  for (std::size_t i = 0; i < sample.fields.size(); ++i) {
    const Field& field = sample.fields[i];
    entry.members.push_back({.suffix = field.suffix,
                             .offset = field.offset,
                             .size = field.data.size(),
                             .crc32 = crc32(field.data.span()),
                             .header_crc32 = header_crcs[i]});
  }
  return entry;
}

void write_text(const std::string& path, io::Replace replace, const std::string& text) {
  const auto sink = io::open_file_sink(path, {.replace = replace});
  sink->write(std::as_bytes(std::span(text.data(), text.size())));
  sink->finish();
}

}  // namespace

std::size_t ShardIndex::sample_at(std::uint64_t offset) const {
  const auto found = std::lower_bound(
      samples.begin(), samples.end(), offset,
      [](const IndexedSample& sample, std::uint64_t wanted) { return sample.offset < wanted; });
  return static_cast<std::size_t>(found - samples.begin());
}

std::string index_url(const std::string& url) {
  const std::size_t query = io::is_network_url(url) ? url.find_first_of("?#") : std::string::npos;
  std::string index = url.substr(0, query) + ".index.json";
  if (query != std::string::npos) index += url.substr(query);
  return index;
}

ShardIndex build_index(const io::Opener& opener, const std::string& url,
                       const ShardOptions& options) {
  const detail::HashingOpener hashing(opener);
  ShardOptions wanted = options;
  wanted.index = nullptr;
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

ShardIndex read_index(const io::Opener& opener, const std::string& url,
                      const std::stop_token& stop) {
  try {
    return parse_index(io::read_object(opener, url, kMaxIndexBytes, stop).text());
  } catch (Error& error) {
    error.annotate({.url = io::printable_url(url)});
    throw;
  }
}

std::shared_ptr<const ShardIndex> find_index(const io::Opener& opener, const std::string& shard_url,
                                             const std::stop_token& stop) {
  if (shard_url == "-" || shard_url.starts_with("pipe:")) return nullptr;
  try {
    return std::make_shared<const ShardIndex>(read_index(opener, index_url(shard_url), stop));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotFound) return nullptr;
    throw;
  }
}

std::optional<std::uint64_t> read_sample_count(const io::Opener& opener, const std::string& url,
                                               const std::stop_token& stop) {
  constexpr std::size_t kHeadBytes = 1024;
  std::string head(kHeadBytes, '\0');
  try {
    const auto source = opener.open(url, {.stop = stop});
    std::size_t used = 0;
    const auto bytes = std::as_writable_bytes(std::span(head));
    while (used < kHeadBytes) {
      const std::size_t got = source->read(bytes.subspan(used));
      if (got == 0) break;
      used += got;
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotFound) return {};
    throw;
  }
  const std::size_t samples = head.find(",\"samples\":");
  const Json json = Json::parse(head.substr(0, samples) + "}", nullptr, false);
  if (samples == std::string::npos || !json.is_object() || !json.contains("count") ||
      !json["count"].is_number_unsigned()) {
    throw Error(ErrorCode::kCorrupt, "index: has no count", {.url = io::printable_url(url)});
  }
  return json["count"].get<std::uint64_t>();
}

void write_index(const ShardIndex& index, const std::string& path, io::Replace replace) {
  std::string text = Json({{"millrace_index", kVersion},
                           {"bytes", index.bytes},
                           {"count", index.samples.size()},
                           {"end", index.end},
                           {"sha256", index.sha256}})
                         .dump();
  text.pop_back();  // the closing brace: samples follow, one a line
  text += ",\"samples\":[";
  for (const IndexedSample& sample : index.samples) {
    text += (text.back() == '[' ? "\n" : ",\n") + to_json(sample).dump();
  }
  write_text(path, replace, text + "\n]}\n");
}

// "v1.2 COUNT", then a line a sample: "SUFFIX OFFSET SIZE NAME" for each member.
void write_dali_index(const ShardIndex& index, const std::string& path, io::Replace replace) {
  std::string text = "v1.2 " + std::to_string(index.samples.size()) + "\n";
  for (const IndexedSample& sample : index.samples) {
    std::string line;
    for (const IndexedMember& member : sample.members) {
      line += (line.empty() ? "" : " ") + member.suffix + " " + std::to_string(member.offset) +
              " " + std::to_string(member.size) + " " + sample.key + "." + member.suffix;
    }
    text += line + "\n";
  }
  write_text(path, replace, text);
}

}  // namespace millrace::wds
