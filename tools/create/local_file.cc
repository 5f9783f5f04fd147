#include "tools/create/local_file.h"

#include <filesystem>

#include "io/opener.h"

namespace millrace::tools {

std::string local_url(const std::string& path) {
  return "file://" + std::filesystem::absolute(path).string();
}

io::Bytes read_local_file(const std::string& path, std::size_t max_bytes) {
  const auto source = io::UrlOpener().open(local_url(path));
  return io::read_all(*source, max_bytes);
}

}  // namespace millrace::tools
