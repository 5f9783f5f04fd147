#include "wds/set_file.h"

#include <cctype>

namespace millrace::wds {

std::string set_file(const std::string& shard, std::string_view name) {
  const std::size_t begin = shard.rfind('/') == std::string::npos ? 0 : shard.rfind('/') + 1;
  std::size_t end = shard.find(".tar", begin);
  if (end == std::string::npos) end = shard.size();
  while (end > begin && std::isdigit(static_cast<unsigned char>(shard[end - 1])) != 0) --end;
  const bool separated =
      end == begin || std::string_view("-_.").find(shard[end - 1]) != std::string_view::npos;
  return shard.substr(0, end) + (separated ? "" : "-") + std::string(name);
}

}  // namespace millrace::wds
