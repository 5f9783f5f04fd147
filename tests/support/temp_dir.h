// TempDir: an empty folder that is deleted with its contents on destruction.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace millrace::testing {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// The path of `name` inside the folder.
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// The whole file as text. Fails the test if it cannot be read.
std::string read_file(const std::string& path);
/// Writes `content` to `path`, creating missing folders.
void write_file(const std::string& path, std::string_view content);

}  // namespace millrace::testing
