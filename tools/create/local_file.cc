#include "tools/create/local_file.h"

#include <filesystem>

#include "io/base/error.h"
#include "io/same_file.h"

namespace millrace::tools {

std::string local_url(const std::string& path) {
  return "file://" + std::filesystem::absolute(path).string();
}

void refuse_repeated_files(std::span<const std::string> files) {
  const auto repeated = io::find_repeated_files(files);
  if (!repeated) return;
  const std::string& file = files[repeated->first];
  const std::string& earlier = files[repeated->second];
  throw Error(ErrorCode::kInvalidArgument,
              file + (earlier == file ? " is listed twice" : " and " + earlier + " are one file") +
                  ": its samples would be in the set twice");
}

}  // namespace millrace::tools
