#include "io/detail/http/network_log.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::io::detail {
namespace {

using std::chrono::duration;

// At most this many urls and reasons get a line of their own, even in a set of a million shards.
constexpr std::size_t kMostLines = 32;
constexpr std::chrono::seconds kBetweenWaits{30};

// libcurl's messages contain times and ports, which make one reason look like many.
std::string kind_of(const std::string& reason) {
  std::string kind = reason;
  std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
  return kind;
}

bool is_power_of_ten(std::uint64_t count) {
  while (count % 10 == 0 && count > 0) count /= 10;
  return count == 1;
}

}  // namespace

void NetworkLog::retry(const std::string& name, const std::string& reason,
                       std::chrono::milliseconds patience) {
  MutexLock lock(mutex_);
  ++retries_;
  if (said_.size() < kMostLines && said_.insert(name + "\n" + kind_of(reason)).second) {
    log_.warn(fmt::format("{}: {}; trying again, for up to {:g} s", name, reason,
                          duration<double>(patience).count()));
  } else if (retries_ >= 10 && is_power_of_ten(retries_)) {
    log_.warn(fmt::format("{} tries were repeated so far, the last one for {}: {}", retries_, name,
                          reason));
  }
}

void NetworkLog::second_request(const std::string& name) {
  MutexLock lock(mutex_);
  ++second_requests_;
  if (second_requests_ == 1) {
    log_.info(name + ": a part takes three times as long as others; asking for it twice");
  } else if (is_power_of_ten(second_requests_)) {
    log_.info(fmt::format("{} slow parts were asked for twice so far, the last one of {}",
                          second_requests_, name));
  }
}

void NetworkLog::unversioned(const std::string& name) {
  const std::string server = name.substr(0, name.find('/', name.find("://") + 3));
  MutexLock lock(mutex_);
  if (unversioned_.size() >= kMostLines || !unversioned_.insert(server).second) return;
  log_.warn(name +
            ": the server tells neither a strong ETag nor Last-Modified, so if an object "
            "changes while it is read, parts of both are taken without notice, unless an "
            "index shows it");
}

void NetworkLog::wait(const std::string& name, const std::string& what,
                      std::chrono::milliseconds waited) {
  MutexLock lock(mutex_);
  const Clock::TimePoint now = Clock::system().now();
  if (now < next_wait_) return;
  next_wait_ = now + kBetweenWaits;
  log_.info(
      fmt::format("waiting for {}: {} for {:g} s", name, what, duration<double>(waited).count()));
}

}  // namespace millrace::io::detail
