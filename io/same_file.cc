#include "io/same_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "io/base/error.h"
#include "io/detail/http/url.h"
#include "io/local_path.h"
#include "io/opener.h"

namespace millrace::io {
namespace {

/// Without the revision that is meant if none is named.
std::string without_main(const std::string& url) {
  const std::size_t at = url.find("@main/");
  const auto name = std::string_view(url).substr(0, at).substr(std::string_view("hf://").size());
  const bool typed = name.starts_with("datasets/") || name.starts_with("spaces/");
  if (at == url.npos || std::ranges::count(name, '/') != (typed ? 2 : 1)) return url;
  return url.substr(0, at) + url.substr(url.find('/', at));
}

/// A bucket's key is any text, and what it means is the store's own matter.
std::string one_name_of(const std::string& url) {
  const std::string scheme = url_scheme(url);
  if (scheme == "http" || scheme == "https") return detail::normal_url(url);
  if (scheme.empty() || !is_network_url(url)) return url;
  const std::string named = scheme + url.substr(scheme.size());
  return scheme == "hf" ? without_main(named) : named;
}

}  // namespace

std::string file_identity(const std::string& url) {
  const std::optional<std::string> path = local_path(url);
  if (!path) return one_name_of(url);
  struct stat status {};
  if (::stat(path->c_str(), &status) != 0)
    return std::filesystem::absolute(*path).lexically_normal().string();
  if (S_ISDIR(status.st_mode)) return fmt::format("folder {} {}", status.st_dev, status.st_ino);
  if (!S_ISREG(status.st_mode)) return *path;
  // Some file systems of networks give one number to several files.
  return fmt::format("file {} {} {} {}.{:09}", status.st_dev, status.st_ino, status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

std::optional<std::pair<std::size_t, std::size_t>> find_repeated(
    std::span<const std::string> identities) {
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < identities.size(); ++i) {
    const auto [earlier, is_new] = seen.emplace(identities[i], i);
    if (!is_new) return std::pair{i, earlier->second};
  }
  return {};
}

std::optional<std::pair<std::size_t, std::size_t>> find_repeated_files(
    std::span<const std::string> places) {
  std::vector<std::string> identities;
  identities.reserve(places.size());
  for (const std::string& place : places) identities.push_back(file_identity(place));
  return find_repeated(identities);
}

}  // namespace millrace::io
