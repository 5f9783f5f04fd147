#include "tools/create/local_file.h"

#include <filesystem>

namespace millrace::tools {

std::string local_url(const std::string& path) {
  return "file://" + std::filesystem::absolute(path).string();
}

}  // namespace millrace::tools
