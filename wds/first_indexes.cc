#include "wds/first_indexes.h"

#include <algorithm>
#include <functional>

#include "io/base/error.h"
#include "io/opener.h"

namespace millrace::wds {

void FirstIndexes::check(const std::string& url, const ShardIndex& index) {
  if (index.sha256.empty()) return;
  std::array<char, 32> mark = {};  // half of the digits: chance does not repeat them
  std::copy_n(index.sha256.begin(), std::min(mark.size(), index.sha256.size()), mark.begin());
  const MutexLock lock(mutex_);
  const auto [first, is_new] = marks_.try_emplace(std::hash<std::string>{}(url), mark);
  if (first->second == mark) return;
  throw Error(ErrorCode::kIo,
              "the shard was replaced while this run read it: its index is of another content than "
              "in an earlier epoch",
              {.url = io::printable_url(url)});
}

}  // namespace millrace::wds
