#include "io/home_path.h"

#include <pwd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "io/base/error.h"

namespace millrace::io {
namespace {

std::string home_of_process() {
  const char* found = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  require(found != nullptr, "environment variable HOME is not set");
  return found;
}

/// The home folder that `~USER` names; empty if there is none.
std::string home_of_user(const std::string& user) {
  const passwd* entry = ::getpwnam(user.c_str());  // NOLINT(concurrency-mt-unsafe)
  return entry == nullptr ? "" : entry->pw_dir;
}

}  // namespace

std::string with_home(const std::string& path, const std::function<std::string()>& own_home) {
  std::error_code ignored;
  if (!path.starts_with('~') || std::filesystem::exists(path, ignored)) return path;
  const std::size_t slash = std::min(path.find('/'), path.size());
  const std::string user = path.substr(1, slash - 1);
  const std::string home = !user.empty() ? home_of_user(user)
                           : own_home    ? own_home()
                                         : home_of_process();
  return home.empty() ? path : home + path.substr(slash);
}

}  // namespace millrace::io
