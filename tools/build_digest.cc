#include "tools/build_digest.h"

#include <fmt/format.h>
#include <link.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "io/base/hash.h"
#include "io/byte_source.h"
#include "io/opener.h"

namespace millrace::tools {
namespace {

int add_library(dl_phdr_info* library, std::size_t /*size*/, void* paths) {
  if (std::string_view(library->dlpi_name).find("libmillrace") != std::string_view::npos)
    static_cast<std::vector<std::string>*>(paths)->emplace_back(library->dlpi_name);
  return 0;
}

}  // namespace

std::string build_digest() {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  constexpr std::size_t kDigits = 12;
  std::vector<std::string> paths = {"/proc/self/exe"};
  dl_iterate_phdr(add_library, &paths);
  Sha256 hash;
  std::vector<std::byte> piece(kPiece);
  for (const std::string& path : paths) {
    const auto source = io::UrlOpener().open(path);
    while (const std::size_t size = source->read(piece)) hash.update(std::span(piece).first(size));
  }
  return fmt::format("{} build {}", MILLRACE_VERSION, hash.hex().substr(0, kDigits));
}

}  // namespace millrace::tools
