#include "wds/shard_spec.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unordered_set>
#include <utility>

#include "io/base/error.h"
#include "io/local_path.h"
#include "io/opener.h"

namespace millrace::wds {
namespace {

namespace fs = std::filesystem;
using Shards = std::vector<ManifestShard>;

[[noreturn]] void invalid_spec(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

std::vector<std::string_view> split_union(std::string_view spec) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = spec.find("::");
    parts.push_back(spec.substr(0, end));
    if (end == std::string_view::npos) return parts;
    spec.remove_prefix(end + 2);
  }
}

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

std::string variable(const std::string& name, const ShardSpecOptions& options) {
  std::optional<std::string> value;
  if (options.environment) {
    value = options.environment(name);
  } else if (const char* found = std::getenv(name.c_str())) {
    value = found;
  }
  if (!value) invalid_spec("environment variable " + name + " is not set");
  return *value;
}

// One pass of `${NAME}` → WDS_NAME.
std::string substituted_once(std::string_view text, const ShardSpecOptions& options) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.substr(at).starts_with("${") ? at + 2 : std::string_view::npos;
    std::size_t end = open;
    while (end < text.size() && is_word(text[end])) ++end;
    if (open != std::string_view::npos && end > open && end < text.size() && text[end] == '}') {
      result += variable("WDS_" + std::string(text.substr(open, end - open)), options);
      at = end + 1;
    } else {
      result += text[at++];
    }
  }
  return result;
}

// A variable's value may name another variable; as in WebDataset, at most ten rounds.
std::string substituted(std::string_view text, const ShardSpecOptions& options) {
  std::string result(text);
  for (int round = 0; round < 10; ++round) {
    std::string next = substituted_once(result, options);
    if (next == result) break;
    result = std::move(next);
  }
  return result;
}

// *.tar*, except indexes, manifests and shards that are being written.
bool is_shard_name(const std::string& name) {
  return name.find(".tar") != std::string::npos && !name.starts_with('.') &&
         !name.ends_with(".json") && !name.ends_with(".idx") &&
         name.find(".tmp-") == std::string::npos;
}

Shards shards_in_folder(const std::string& folder) {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory() && is_shard_name(entry.path().filename().string())) {
      paths.push_back((fs::path(folder) / entry.path().filename()).string());
    }
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) invalid_spec("no shard (*.tar*) in folder " + folder);
  Shards shards;
  for (std::string& path : paths) shards.push_back({.url = std::move(path)});
  return shards;
}

Shards shards_in_manifest(const std::string& url, const ShardSpecOptions& options) {
  if (options.opener == nullptr) invalid_spec("a manifest cannot be read here: " + url);
  Shards shards = read_manifest(*options.opener, url).shards;
  if (shards.empty()) invalid_spec("no shard in manifest " + url);
  return shards;
}

bool has_wild_card(std::string_view name) {
  return name.find_first_of("*?[") != std::string_view::npos;
}

bool is_listed(const std::string& name, const ShardSpecOptions& options) {
  return options.opener != nullptr && options.opener->can_list(name) &&
         (name.ends_with('/') || has_wild_card(name));
}

bool is_manifest(const std::string& name) {
  return !io::is_stream_url(name) && io::printable_url(name).ends_with(".json");
}

// The objects of a store's folder that are shards by their names, or those that match a pattern.
Shards shards_in_store(const std::string& name, const ShardSpecOptions& options) {
  const std::size_t wild = std::min(name.find_first_of("*?["), name.size());
  const bool deep = name.find('/', wild) != std::string::npos;
  Shards shards;
  for (io::ListedObject& object :
       options.opener->list(name.substr(0, wild), {.recursive = deep, .stop = options.stop})) {
    const std::string& url = object.url;
    if (url.ends_with('/')) continue;
    const bool wanted = wild == name.size() ? is_shard_name(url.substr(url.rfind('/') + 1))
                                            : ::fnmatch(name.c_str(), url.c_str(),
                                                        FNM_PATHNAME | FNM_NOESCAPE) == 0;
    if (wanted) shards.push_back({.url = std::move(object.url)});
  }
  if (shards.empty())
    invalid_spec(wild == name.size() ? "no shard (*.tar*) in " + name
                                     : "no object matches " + name);
  return shards;
}

Shards expand_name(const std::string& name, const ShardSpecOptions& options) {
  if (name.empty()) invalid_spec("a shard's name is empty");
  const auto path = io::local_path(name);
  std::error_code ignored;
  if (path && fs::is_directory(*path, ignored)) return shards_in_folder(*path);
  if (is_listed(name, options)) return shards_in_store(name, options);
  if (is_manifest(name)) return shards_in_manifest(name, options);
  return {{.url = name}};
}

void check_duplicates(const Shards& shards) {
  std::unordered_set<std::string_view> seen;
  for (const ManifestShard& shard : shards) {
    if (!seen.insert(shard.url).second)
      invalid_spec("shard " + shard.url + " occurs twice in the list");
  }
}

void append_part(Shards& shards, std::string_view part, const ShardSpecOptions& options) {
  for (const std::string& name : expand_braces(substituted(part, options), options.max_shards)) {
    Shards more = expand_name(name, options);
    if (shards.size() + more.size() > options.max_shards) {
      invalid_spec("more than " + std::to_string(options.max_shards) + " shards");
    }
    std::move(more.begin(), more.end(), std::back_inserter(shards));
  }
}

}  // namespace

std::vector<std::string> expand_shards(std::string_view spec, const ShardSpecOptions& options) {
  const std::string specs[] = {std::string(spec)};
  return expand_shards(specs, options);
}

std::vector<std::string> expand_shards(std::span<const std::string> specs,
                                       const ShardSpecOptions& options) {
  std::vector<std::string> urls;
  for (ManifestShard& shard : list_shards(specs, options)) urls.push_back(std::move(shard.url));
  return urls;
}

std::vector<ManifestShard> list_shards(std::span<const std::string> specs,
                                       const ShardSpecOptions& options) {
  Shards shards;
  for (const std::string& spec : specs) {
    for (const std::string_view part : split_union(spec)) append_part(shards, part, options);
  }
  if (shards.empty()) invalid_spec("no shard is named");
  if (!options.allow_duplicates) check_duplicates(shards);
  return shards;
}

bool expands_over_network(std::string_view spec, const ShardSpecOptions& options) {
  const auto parts = split_union(spec);
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    const std::string name = substituted(part, options);
    return is_listed(name, options) || (io::is_network_url(name) && is_manifest(name));
  });
}

void check_local_shards(std::span<const std::string> shards) {
  std::size_t missing = 0;
  std::string first;
  for (const std::string& shard : shards) {
    const auto path = io::local_path(shard);
    std::error_code ignored;
    if (!path || fs::exists(*path, ignored)) continue;
    if (missing++ == 0) first = *path;
  }
  if (missing == 0) return;
  throw Error(
      ErrorCode::kNotFound,
      "no such shard" + (missing == 1 ? std::string()
                                      : " (and " + std::to_string(missing - 1) + " more of " +
                                            std::to_string(shards.size()) + ")"),
      {.url = first});
}

}  // namespace millrace::wds
