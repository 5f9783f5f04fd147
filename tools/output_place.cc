#include "tools/output_place.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "io/base/error.h"

namespace millrace::tools {

namespace fs = std::filesystem;

void check_writable_folder(const std::string& folder) {
  fs::path place = fs::absolute(folder.empty() ? "." : folder);
  std::error_code ignored;
  while (!fs::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  if (!fs::is_directory(place, ignored)) throw_errno("write to", place.string(), ENOTDIR);
  if (::access(place.c_str(), W_OK | X_OK) != 0) throw_errno("write to", place.string(), errno);
}

void make_parent_folders(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_errno("make the folder", folder.string(), error.value());
}

}  // namespace millrace::tools
