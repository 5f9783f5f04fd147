#include "tools/create/repeated_files.h"

#include <unordered_map>

#include "io/base/error.h"
#include "io/same_file.h"

namespace millrace::tools {

void refuse_repeated_files(std::span<const std::string> files) {
  std::unordered_map<std::string, std::string> seen;
  for (const std::string& file : files) {
    const auto [earlier, is_new] = seen.emplace(io::file_identity(file), file);
    if (is_new) continue;
    throw Error(ErrorCode::kInvalidArgument,
                earlier->second == file
                    ? file + " is listed twice: its samples would be in the set twice"
                    : file + " and " + earlier->second +
                          " are one file: its samples would be in the set twice");
  }
}

}  // namespace millrace::tools
