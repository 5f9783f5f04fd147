#include "wds/outgrown_index.h"

#include <filesystem>
#include <system_error>

#include "io/base/error.h"
#include "io/local_path.h"
#include "io/opener.h"

namespace millrace::wds {

bool outgrows_index(const std::string& url, const ShardIndex& index) {
  const auto path = io::local_path(url);
  if (!path || io::is_read_once(url)) return false;
  std::error_code none;
  const std::uintmax_t bytes = std::filesystem::file_size(*path, none);
  return !none && bytes > index.bytes;
}

void check_not_outgrown(const std::string& url, const ShardIndex& index) {
  if (outgrows_index(url, index))
    throw Error(ErrorCode::kCorrupt,
                "the shard is longer than the " + std::to_string(index.bytes) +
                    " bytes that its index is of: index it again (index --force)",
                {.url = io::printable_url(url)});
}

}  // namespace millrace::wds
