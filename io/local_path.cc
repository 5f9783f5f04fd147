#include "io/local_path.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "io/base/error.h"
#include "io/detail/http/url.h"
#include "io/folder_entries.h"
#include "io/opener.h"

namespace millrace::io {
namespace {

using OpenFolder = std::unique_ptr<DIR, int (*)(DIR*)>;

// Most file systems say what an entry is as they list it.
bool leads_to_folder(DIR* folder, const dirent& entry) {
  if (entry.d_type == DT_DIR) return true;
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return false;
  struct stat status {};
  return ::fstatat(::dirfd(folder), entry.d_name, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

std::vector<FolderEntry> entries_in(const std::string& folder) {
  const std::string place = folder.empty() ? "." : folder;
  const OpenFolder open(::opendir(place.c_str()), ::closedir);
  if (!open) throw_unlisted(place, errno);
  std::vector<FolderEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr && errno != 0) throw_unlisted(place, errno);
    if (entry == nullptr) return entries;
    const std::string_view name(entry->d_name);
    if (name == "." || name == "..") continue;
    entries.push_back(
        {.name = std::string(name), .is_folder = leads_to_folder(open.get(), *entry)});
  }
}

void throw_unlisted(const std::string& folder, int error_number) {
  try {
    throw_errno("list", folder, error_number);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kPermissionDenied) throw;
    throw Error(error.code(), error.message() +
                                  ": what it holds would be missing: make it readable, or give a "
                                  "folder or pattern without it");
  }
}

std::optional<std::string> local_path(const std::string& url) {
  if (url == "-") return {};
  const std::string scheme = url_scheme(url);
  if (scheme.empty()) return url;
  return scheme == "file" ? std::optional(detail::file_url_path(url)) : std::nullopt;
}

bool is_read_once(const std::string& url) {
  if (is_stream_url(url)) return true;
  const auto path = local_path(url);
  std::error_code ignored;
  const auto status =
      path ? std::filesystem::status(*path, ignored) : std::filesystem::file_status();
  const bool folder = std::filesystem::is_directory(status);
  return std::filesystem::exists(status) && !folder && !std::filesystem::is_regular_file(status);
}

bool can_reopen(const std::string& url) { return url_scheme(url) == "pipe" || !is_read_once(url); }

std::vector<std::string> names_in(const std::string& folder) {
  const std::string place = folder.empty() ? "." : folder;
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(place, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory)
    throw_errno("list", place, error.value());
  return names;
}

}  // namespace millrace::io
