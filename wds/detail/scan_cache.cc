#include "wds/detail/scan_cache.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/json.h"
#include "io/byte_sink.h"
#include "io/opener.h"

namespace millrace::wds::detail {
namespace {

using Json = nlohmann::json;

// Four billion blocks are 2 TiB; a sample takes a few bytes of text.
constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 32U;
constexpr JsonLimits kLimits{.bytes = std::size_t{512} * 1024 * 1024,
                             .memory_bytes = std::size_t{8} * 1024 * 1024 * 1024};

std::string checksum(const Json& blocks) {
  const std::string text = blocks.dump();
  return fmt::format("{:08x}", crc32(std::as_bytes(std::span(text))));
}

[[noreturn]] void corrupt_scan(const char* what) {
  throw Error(ErrorCode::kCorrupt, std::string("a kept scan: ") + what);
}

template <typename Integer>
Integer number_at(const Json& json, const char* name) {
  return json_integer<Integer>(json.at(name), std::string("a kept scan: ") + name, 0);
}

std::vector<std::uint32_t> blocks_from(const Json& steps, std::uint64_t end) {
  std::vector<std::uint32_t> blocks;
  blocks.reserve(steps.size());
  std::uint64_t at = 0;
  for (const Json& step : steps) {
    const auto more = json_integer<std::uint64_t>(step, "a kept scan: blocks", 0, kMaxBlocks - 1);
    at += more;
    if (at >= end || (more == 0 && !blocks.empty())) corrupt_scan("samples are in no order");
    blocks.push_back(static_cast<std::uint32_t>(at));
  }
  return blocks;
}

CachedScan cached_from(const Json& json) {
  if (json.at("millrace_scan") != 1) corrupt_scan("of another version");
  if (json.at("crc32") != checksum(json.at("blocks"))) corrupt_scan("its checksum differs");
  CachedScan cached{
      .object = {number_at<std::uint64_t>(json, "bytes"), json.at("version").get<std::string>()}};
  ShardScan& scan = cached.scan;
  const auto end = number_at<std::uint64_t>(json, "end");
  if (end > kMaxBlocks) corrupt_scan("its end");
  scan.end = end * 512;
  scan.compressed = json.at("compressed").get<bool>();
  scan.blocks = blocks_from(json.at("blocks"), end);
  scan.count = scan.blocks.size();
  return cached;
}

Json json_of(const std::string& url, const CachedScan& cached) {
  Json steps = Json::array();
  std::uint32_t before = 0;
  for (const std::uint32_t block : cached.scan.blocks)
    steps.push_back(block - std::exchange(before, block));
  Json json = {{"millrace_scan", 1},           {"url", io::printable_url(url)},
               {"bytes", cached.object.bytes}, {"version", cached.object.version},
               {"end", cached.scan.end / 512}, {"compressed", cached.scan.compressed},
               {"crc32", checksum(steps)}};
  json["blocks"] = std::move(steps);
  return json;
}

}  // namespace

std::string scan_path(const std::string& url, const ScanOptions& options) {
  // A relative path means another file in another folder; a signed url's query differs every time.
  std::string name = io::printable_url(url);
  if (!io::is_network_url(url)) name = std::filesystem::absolute(name).string();
  if (options.lenient) name += "\nlenient";
  if (options.concatenated) name += "\nconcatenated";
  Sha256 hash;
  hash.update(std::as_bytes(std::span(name)));
  return options.cache + "/" + hash.hex().substr(0, 32) + ".json";
}

std::optional<CachedScan> read_scan(const std::string& path) {
  try {
    const io::Bytes text = io::read_object(io::UrlOpener(), path, kLimits.bytes);
    return cached_from(parse_json<Json>(text.text(), "a kept scan", kLimits));
  } catch (const Error& error) {
    std::error_code ignored;
    if (!cannot_be_seen(error)) std::filesystem::remove(path, ignored);
  } catch (const Json::exception&) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  return {};
}

void write_scan(const std::string& path, const std::string& url, const CachedScan& cached) {
  try {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    const auto sink = io::open_file_sink(path, {.replace = io::Replace::kAtomically});
    const std::string text =
        json_of(url, cached).dump(-1, ' ', false, Json::error_handler_t::replace);
    sink->write(std::as_bytes(std::span(text)));
    sink->finish();
  } catch (const Error&) {  // a run continues without a cache
  } catch (const std::filesystem::filesystem_error&) {
  }
}

}  // namespace millrace::wds::detail
