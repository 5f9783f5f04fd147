#include "tools/output_place.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>

#include "io/base/error.h"
#include "io/local_path.h"
#include "io/opener.h"

namespace millrace::tools {

namespace fs = std::filesystem;

void check_local_output(const std::string& path) {
  require(io::local_path(path) == path && !path.starts_with("file:"),
          io::printable_url(path) +
              ": results are written only to local files and folders, by "
              "their plain path");
}

void check_output(const std::string& path) {
  if (!io::is_network_url(path)) check_local_output(path);
}

void check_folder_of(const std::string& path) {
  if (io::is_network_url(path)) return;
  check_writable_folder(fs::path(path).parent_path().string());
}

void check_writable_folder(const std::string& folder) {
  fs::path place = fs::absolute(folder.empty() ? "." : folder);
  std::error_code ignored;
  while (!fs::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  if (!fs::is_directory(place, ignored)) throw_errno("write to", place.string(), ENOTDIR);
  // Only an attempt is reliable: access() always succeeds for root. An unnamed file leaves nothing
  // behind even if the process is killed here.
  if (const int fd = ::open(place.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600); fd >= 0) {
    ::close(fd);
    return;
  }
  if (errno != EOPNOTSUPP && errno != EISDIR) throw_errno("write to", place.string(), errno);
  std::string probe = (place / ".millrace-probe-XXXXXX").string();
  const int fd = ::mkstemp(probe.data());
  if (fd < 0) throw_errno("write to", place.string(), errno);
  ::close(fd);
  ::unlink(probe.c_str());
}

void check_output_file(const std::string& path, io::Replace replace) {
  check_output(path);
  if (io::is_network_url(path)) return;
  require(replace != io::Replace::kNever || !fs::exists(path),
          path + " exists: --force replaces it");
  check_folder_of(path);
}

std::unique_ptr<io::ByteSink> open_output_file(const io::Opener& opener, const std::string& path,
                                               io::Replace replace) {
  if (io::is_network_url(path)) return opener.open_sink(path, {.replace = replace});
  make_parent_folders(path);
  return io::open_file_sink(path, {.replace = replace});
}

namespace {

/// By asking for it: where a store cannot list.
bool can_be_read(const io::Opener& opener, const std::string& url) {
  try {
    std::byte first{};
    static_cast<void>(opener.open(url)->read({&first, 1}));
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    return false;
  }
}

}  // namespace

bool output_exists(const io::Opener& opener, const std::string& path) {
  if (!io::is_network_url(path)) return fs::exists(path);
  if (!opener.can_list(path)) return can_be_read(opener, path);
  const auto listed = opener.list(path);
  return std::any_of(listed.begin(), listed.end(),
                     [&](const io::ListedObject& object) { return object.url == path; });
}

void make_parent_folders(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  if (folder.empty() || io::is_network_url(path)) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_errno("make the folder", folder.string(), error.value());
}

}  // namespace millrace::tools
