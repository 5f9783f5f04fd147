#include "wds/shard_spec.h"

#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <span>
#include <utility>

#include "io/base/error.h"
#include "io/folder_entries.h"
#include "io/home_path.h"
#include "io/local_path.h"
#include "io/opener.h"
#include "io/same_file.h"
#include "wds/parquet_shard.h"

namespace millrace::wds {
namespace {

namespace fs = std::filesystem;
using Shards = std::vector<ManifestShard>;

[[noreturn]] void invalid_spec(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// Where the address "[::1]" of a url whose "://" is at `at` ends; `at` if it has none.
std::size_t end_of_address(std::string_view spec, std::size_t at) {
  const std::size_t host = at + 3;
  const std::string_view authority = spec.substr(host, spec.find_first_of("/?#", host) - host);
  const std::size_t open = authority.find('[');
  if (open == std::string_view::npos || (open > 0 && authority[open - 1] != '@')) return at;
  const std::size_t close = authority.find(']', open);
  return close == std::string_view::npos ? at : host + close;
}

std::size_t find_union(std::string_view spec) {
  for (std::size_t at = spec.find(':'); at != std::string_view::npos; at = spec.find(':', at + 1)) {
    if (spec.substr(at).starts_with("::")) return at;
    if (spec.substr(at).starts_with("://")) at = end_of_address(spec, at);
  }
  return std::string_view::npos;
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

/// "a.tar.tmp-0", a file that is being written.
bool is_temporary(std::string_view name) {
  const std::size_t mark = name.rfind(".tmp-");
  return mark != name.npos && name.find_first_not_of("0123456789", mark + 5) == name.npos;
}

/// Indexes, manifests and shards that are being written.
bool is_sidecar(const std::string& name) {
  return name.ends_with(".json") || name.ends_with(".idx") || is_temporary(name);
}

bool is_tar_name(const std::string& name) {
  return name.find(".tar") != std::string::npos && !name.starts_with('.') && !is_sidecar(name);
}

bool is_parquet_name(const std::string& name) {
  return is_parquet(name) && !name.starts_with('.') && !is_sidecar(name);
}

std::string_view last_name(std::string_view url) { return url.substr(url.rfind('/') + 1); }

/// The tars among them. Beside these, Parquet files are tables of what they hold; alone, shards.
void keep_named_shards(std::vector<std::string>& urls) {
  const auto is_tar = [](const std::string& url) {
    return is_tar_name(std::string(last_name(url)));
  };
  const bool tars = std::ranges::any_of(urls, is_tar);
  std::erase_if(urls, [&](const std::string& url) {
    return tars ? !is_tar(url) : !is_parquet_name(std::string(last_name(url)));
  });
}

Shards shards_in_folder(const std::string& folder) {
  std::vector<std::string> paths;
  for (const io::FolderEntry& entry : io::entries_in(folder)) {
    if (!entry.is_folder) paths.push_back((fs::path(folder) / entry.name).string());
  }
  keep_named_shards(paths);
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) invalid_spec("no shard (*.tar*, *.parquet) in folder " + folder);
  Shards shards;
  for (std::string& path : paths) shards.push_back({.url = std::move(path)});
  return shards;
}

Shards shards_in_manifest(const std::string& url, const ShardSpecOptions& options) {
  if (options.opener == nullptr)
    invalid_spec("a manifest cannot be read here: " + io::printable_url(url));
  Shards shards = read_manifest(*options.opener, url).shards;
  if (shards.empty()) invalid_spec("no shard in manifest " + io::printable_url(url));
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

// What a pattern means: of train*, the shards and not what lies beside them. Names that no shard
// has are taken as they are, unless they are an index's or a manifest's; these only if asked for.
void keep_shards(std::vector<std::string>& matches, const std::string& pattern) {
  if (pattern.ends_with(".json")) return;
  std::erase_if(matches, is_sidecar);
  const auto is_other = [](const std::string& name) {
    return !is_tar_name(std::string(last_name(name)));
  };
  if (!std::ranges::all_of(matches, is_other)) std::erase_if(matches, is_other);
}

// The objects of a store's folder that are shards by their names, or those that match a pattern.
Shards shards_in_store(const std::string& name, const ShardSpecOptions& options) {
  const std::size_t wild = std::min(name.find_first_of("*?["), name.size());
  const bool deep = name.find('/', wild) != std::string::npos;
  std::vector<std::string> found;
  for (io::ListedObject& object :
       options.opener->list(name.substr(0, wild), {.recursive = deep, .stop = options.stop})) {
    const std::string& url = object.url;
    if (url.ends_with('/')) continue;
    const bool wanted = wild == name.size() ||
                        ::fnmatch(name.c_str(), url.c_str(), FNM_PATHNAME | FNM_NOESCAPE) == 0;
    if (wanted) found.push_back(std::move(object.url));
  }
  if (wild == name.size())
    keep_named_shards(found);
  else
    keep_shards(found, name);
  Shards shards;
  for (std::string& url : found) shards.push_back({.url = std::move(url)});
  if (shards.empty())
    invalid_spec(wild == name.size() ? "no shard (*.tar*, *.parquet) in " + io::printable_url(name)
                                     : "no object matches " + io::printable_url(name));
  return shards;
}

/// The paths that match a pattern.
std::vector<std::string> matching_paths(const std::string& pattern) {
  glob_t found{};
  // What is no folder, or gone meanwhile, matches nothing; a folder that cannot be read may hold
  // shards.
  static thread_local std::pair<std::string, int> unread;  // glob() passes nothing to the function
  const auto note = [](const char* path, int error) {
    if (error == ENOENT || error == ENOTDIR) return 0;
    if (std::string_view(path).ends_with("/lost+found")) return 0;  // a file system's own
    unread = {path, error};
    return 1;
  };
  const int result = ::glob(pattern.c_str(), GLOB_NOESCAPE | GLOB_NOSORT, note, &found);
  const std::span<char*> matches(found.gl_pathv, found.gl_pathc);
  std::vector<std::string> paths(matches.begin(), matches.end());
  ::globfree(&found);
  if (result == GLOB_NOSPACE) throw std::bad_alloc();
  if (result == GLOB_ABORTED) io::throw_unlisted(unread.first, unread.second);
  keep_shards(paths, pattern);
  if (paths.empty()) invalid_spec("no file matches " + pattern);
  std::sort(paths.begin(), paths.end());
  return paths;
}

Shards expand_place(const std::string& name, const ShardSpecOptions& options) {
  const auto path = io::local_path(name);
  std::error_code ignored;
  if (path && fs::is_directory(*path, ignored)) return shards_in_folder(*path);
  if (is_listed(name, options)) return shards_in_store(name, options);
  if (is_manifest(name)) return shards_in_manifest(name, options);
  return {{.url = name}};
}

Shards expand_stored(const std::string& given, const ShardSpecOptions& options) {
  if (given.empty()) invalid_spec("a shard's name is empty");
  const std::string name = io::with_home(given, [&] { return variable("HOME", options); });
  const auto path = io::local_path(name);
  std::error_code ignored;
  if (!path || !has_wild_card(*path) || fs::exists(*path, ignored))
    return expand_place(name, options);
  Shards shards;
  for (const std::string& match : matching_paths(*path)) {
    Shards more = expand_place(match, options);
    std::move(more.begin(), more.end(), std::back_inserter(shards));
  }
  return shards;
}

Shards expand_name(const std::string& name, const ShardSpecOptions& options) {
  Shards shards = expand_stored(stored_url(name), options);
  for (ManifestShard& shard : shards) shard.url += column_choice(name);
  return shards;
}

void check_duplicates(const Shards& shards) {
  std::vector<std::string> identities;
  identities.reserve(shards.size());
  for (const ManifestShard& shard : shards)  // of a Parquet file, other columns are other samples
    identities.push_back(io::file_identity(stored_url(shard.url)).append(column_choice(shard.url)));
  const auto repeated = io::find_repeated(identities);
  if (!repeated) return;
  const std::string& url = shards[repeated->first].url;
  const std::string& earlier = shards[repeated->second].url;
  invalid_spec("shard " + io::printable_url(url) + " occurs twice in the list" +
               (earlier == url ? "" : ", also as " + io::printable_url(earlier)));
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

std::vector<std::string_view> union_parts(std::string_view spec) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = find_union(spec);
    parts.push_back(spec.substr(0, end));
    if (end == std::string_view::npos) return parts;
    spec.remove_prefix(end + 2);
  }
}

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
    for (const std::string_view part : union_parts(spec)) append_part(shards, part, options);
  }
  if (shards.empty()) invalid_spec("no shard is named");
  if (!options.allow_duplicates) check_duplicates(shards);
  return shards;
}

bool expands_over_network(std::string_view spec, const ShardSpecOptions& options) {
  const auto parts = union_parts(spec);
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    const std::string name = substituted(part, options);
    return is_listed(name, options) || (io::is_network_url(name) && is_manifest(name));
  });
}

void check_local_shards(std::span<const std::string> shards) {
  std::size_t missing = 0;
  std::string first;
  for (const std::string& shard : shards) {
    const auto path = io::local_path(stored_url(shard));
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
