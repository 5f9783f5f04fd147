#include "wds/first_indexes.h"

#include "io/base/error.h"
#include "io/opener.h"

namespace millrace::wds {

void FirstIndexes::check(const std::string& url, const std::string& sha256) {
  if (sha256.empty()) return;
  const MutexLock lock(mutex_);
  if (first_.try_emplace(url, sha256).first->second == sha256) return;
  throw Error(ErrorCode::kIo,
              "the shard was replaced while this run read it: its index is of another content than "
              "in an earlier epoch",
              {.url = url});
}

std::string FirstIndexes::sha256_of(const std::string& url) const {
  const MutexLock lock(mutex_);
  const auto found = first_.find(url);
  return found == first_.end() ? std::string() : found->second;
}

}  // namespace millrace::wds
