#include "tools/create/local_file.h"

#include <filesystem>
#include <vector>

#include "io/base/error.h"
#include "io/same_file.h"

namespace millrace::tools {

std::string local_url(const std::string& path) {
  return "file://" + std::filesystem::absolute(path).string();
}

void refuse_repeated_files(std::span<const std::string> files) {
  std::vector<std::string> identities;
  identities.reserve(files.size());
  for (const std::string& file : files) identities.push_back(io::file_identity(file));
  const auto repeated = io::find_repeated(identities);
  if (!repeated) return;
  const std::string& file = files[repeated->first];
  const std::string& earlier = files[repeated->second];
  throw Error(ErrorCode::kInvalidArgument,
              file + (earlier == file ? " is listed twice" : " and " + earlier + " are one file") +
                  ": its samples would be in the set twice");
}

}  // namespace millrace::tools
