#include "tools/create/folder_fence.h"

#include <filesystem>

#include "io/base/error.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

std::string real_path(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path.empty() ? "." : path, error);
  if (error) throw_errno("look at", path, error.value());
  return real.string();
}

bool lies_in(const std::string& path, const std::string& folder) {
  if (folder == "/") return true;
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

}  // namespace

FolderFence::FolderFence(const std::string& folder, Outside outside) : outside_(outside) {
  if (outside_ == Outside::kRefused) root_ = real_path(folder);
}

const std::string& FolderFence::real_folder(const std::string& folder) {
  if (last_real_.empty() || folder != last_folder_) {
    last_real_ = real_path(folder);
    last_folder_ = folder;
  }
  return last_real_;
}

void FolderFence::check(const std::string& file) {
  if (outside_ == Outside::kAllowed) return;
  std::error_code ignored;
  const bool is_link = fs::is_symlink(file, ignored);
  const std::string real =
      is_link ? real_path(file) : real_folder(fs::path(file).parent_path().string());
  if (lies_in(real, root_)) return;
  throw Error(ErrorCode::kInvalidArgument,
              file + (is_link ? " is a link to " + real + ", which" : "") +
                  " is outside the folder " + root_ +
                  ": --root names another one, --allow-outside packs it all the same");
}

}  // namespace millrace::tools
