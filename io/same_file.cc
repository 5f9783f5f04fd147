#include "io/same_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "io/base/error.h"
#include "io/local_path.h"

namespace millrace::io {
namespace {

/// Of a server's url, whose path is one of folders; a bucket's key is any text.
std::string normal_url(const std::string& url) {
  const std::size_t host = url.find("://");
  if (!url.starts_with("http") || host == url.npos) return url;
  const std::size_t begin = std::min(url.find('/', host + 3), url.size());
  const std::size_t end = std::min(url.find_first_of("?#", begin), url.size());
  const std::string path = url.substr(begin, end - begin);
  if (path.find("/.") == path.npos) return url;
  return url.substr(0, begin) + std::filesystem::path(path).lexically_normal().string() +
         url.substr(end);
}

}  // namespace

std::string file_identity(const std::string& url) {
  const std::optional<std::string> path = local_path(url);
  if (!path) return normal_url(url);
  struct stat status {};
  if (::stat(path->c_str(), &status) != 0)
    return std::filesystem::absolute(*path).lexically_normal().string();
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

}  // namespace millrace::io
