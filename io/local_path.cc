#include "io/local_path.h"

#include <filesystem>
#include <system_error>

#include "io/base/error.h"
#include "io/detail/http/url.h"
#include "io/opener.h"

namespace millrace::io {

std::optional<std::string> local_path(const std::string& url) {
  if (url == "-") return {};
  const std::string scheme = detail::url_scheme(url);
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

bool can_reopen(const std::string& url) {
  return detail::url_scheme(url) == "pipe" || !is_read_once(url);
}

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
