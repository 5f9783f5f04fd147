#include "wds/manifest.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "io/opener.h"
#include "wds/detail/write_text.h"

namespace millrace::wds {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxManifestBytes = std::size_t{64} * 1024 * 1024;

[[noreturn]] void corrupt_manifest(const std::string& message) {
  throw Error(ErrorCode::kCorrupt, "manifest: " + message);
}

bool has_scheme(const std::string& url) {
  return io::is_stream_url(url) || url.find("://") != std::string::npos;
}

// `url` as a reader opens it, if the manifest at `base` contains it.
std::string resolved(const std::string& base, const std::string& url) {
  if (url.empty()) corrupt_manifest("a shard has no url");
  if (io::is_stream_url(url)) corrupt_manifest("may not name a pipe: " + url);
  const bool network = io::is_network_url(base);
  if (network && (url.starts_with('/') || (has_scheme(url) && !io::is_network_url(url)))) {
    corrupt_manifest("one from the network may not name a local file: " + url);
  }
  if (has_scheme(url) || url.starts_with('/')) return url;
  const std::string folder = network ? io::printable_url(base) : base;
  const std::size_t slash = folder.rfind('/');
  return slash == std::string::npos ? url : folder.substr(0, slash + 1) + url;
}

std::optional<std::uint64_t> count_in(const Json& shard, const char* name) {
  const auto found = shard.find(name);
  if (found == shard.end() || found->is_null()) return {};
  return json_integer<std::uint64_t>(*found, std::string("manifest: ") + name);
}

ManifestShard parse_shard(const Json& shard, const std::string& base) {
  if (!shard.is_object() || !shard.contains("url") || !shard["url"].is_string()) {
    corrupt_manifest("a shard has no url");
  }
  ManifestShard parsed;
  parsed.url = resolved(base, shard["url"].get<std::string>());
  parsed.samples = count_in(shard, "nsamples");
  parsed.bytes = count_in(shard, "filesize");
  if (const auto hash = shard.find("sha256"); hash != shard.end() && hash->is_string()) {
    parsed.sha256 = hash->get<std::string>();
  }
  return parsed;
}

std::string text_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Manifest parse_manifest(std::string_view text, const std::string& base) {
  const Json json = parse_json<Json>(text, "manifest", {.bytes = kMaxManifestBytes});
  if (!json.is_object()) corrupt_manifest("is not a JSON object");
  const auto list = json.find("shardlist");
  if (list == json.end() || !list->is_array()) corrupt_manifest("has no shardlist");
  Manifest manifest;
  manifest.name = text_in(json, "name");
  manifest.pictures = {.jpeg = text_in(json, "jpeg"), .image = text_in(json, "image")};
  manifest.samples = count_in(json, "nsamples");
  for (const Json& shard : *list) {
    manifest.shards.push_back(parse_shard(shard, base));
    manifest.shards.back().pictures = manifest.pictures;
  }
  return manifest;
}

// Shards in the manifest's folder are named without it, so that a set can be moved.
std::string relative_url(const std::string& url, const std::string& manifest_path) {
  const std::size_t slash = manifest_path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : manifest_path.substr(0, slash + 1);
  if (url.size() > folder.size() && url.starts_with(folder)) return url.substr(folder.size());
  if (has_scheme(url) || url.starts_with('/')) return url;
  return std::filesystem::absolute(url).string();
}

}  // namespace

Manifest read_manifest(const io::Opener& opener, const std::string& url) {
  try {
    const auto source = opener.open(url);
    return parse_manifest(io::read_all(*source, kMaxManifestBytes).text(), url);
  } catch (Error& error) {
    error.annotate({.url = url});
    throw;
  }
}

void write_manifest(const Manifest& manifest, const std::string& path, io::Replace replace,
                    const io::Opener* opener) {
  Json list = Json::array();
  for (const ManifestShard& shard : manifest.shards) {
    Json entry = {{"url", relative_url(shard.url, path)}};
    if (!is_utf8(shard.url))
      throw Error(ErrorCode::kUnsupported, "a manifest cannot name a file whose name is not UTF-8",
                  {.url = shard.url});
    if (shard.samples) entry["nsamples"] = *shard.samples;
    if (shard.bytes) entry["filesize"] = *shard.bytes;
    if (!shard.sha256.empty()) entry["sha256"] = shard.sha256;
    list.push_back(std::move(entry));
  }
  Json json = {{"wids_version", 1}, {"name", manifest.name}, {"shardlist", std::move(list)}};
  if (manifest.samples) json["nsamples"] = *manifest.samples;
  if (!manifest.pictures.jpeg.empty()) json["jpeg"] = manifest.pictures.jpeg;
  if (!manifest.pictures.image.empty()) json["image"] = manifest.pictures.image;
  const std::string text = json.dump(2) + "\n";
  detail::write_text(opener, path, replace, text);
}

}  // namespace millrace::wds
