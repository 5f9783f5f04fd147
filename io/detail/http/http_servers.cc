#include "io/detail/http/http_servers.h"

#include <algorithm>
#include <span>
#include <vector>

#include "io/detail/http/url.h"

namespace millrace::io::detail {
namespace {

// Many objects of few servers is the usual case; this bounds the memory if it is not.
constexpr std::size_t kMostServers = 4096;
constexpr std::size_t kLeastParts = 20;
// A part over a new connection is not slow: over TLS it takes four round trips.
constexpr Clock::Duration kLeastSlow = std::chrono::milliseconds(500);

Clock::Duration slow(std::span<const ResponseTimes> parts, Clock::Duration ResponseTimes::*which) {
  std::vector<Clock::Duration> times;
  times.reserve(parts.size());
  for (const ResponseTimes& part : parts) times.push_back(part.*which);
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(times.size() * 95 / 100);
  std::nth_element(times.begin(), at, times.end());
  return std::max(kLeastSlow, 3 * *at);
}

}  // namespace

HttpServers::Server* HttpServers::remember(const std::string& url) {
  std::string host = url_host(url);
  if (servers_.size() >= kMostServers && !servers_.contains(host)) return nullptr;
  return &servers_[std::move(host)];
}

HttpServers::Server HttpServers::known(const std::string& url) const {
  const auto found = servers_.find(url_host(url));
  return found == servers_.end() ? Server{} : found->second;
}

bool HttpServers::has_answered(const std::string& url) const {
  MutexLock lock(mutex_);
  return servers_.contains(url_host(url));
}

void HttpServers::answered(const std::string& url) {
  MutexLock lock(mutex_);
  remember(url);
}

Clock::Duration HttpServers::round_trip(const std::string& url) const {
  MutexLock lock(mutex_);
  return known(url).round_trip;
}

void HttpServers::measured(const std::string& url, Clock::Duration round_trip) {
  MutexLock lock(mutex_);
  Server* server = remember(url);
  if (server == nullptr) return;
  const bool first = server->round_trip == Clock::Duration::zero();
  server->round_trip = first ? round_trip : std::min(server->round_trip, round_trip);
}

bool HttpServers::gives_parts(const std::string& url) const {
  MutexLock lock(mutex_);
  return known(url).gives_parts;
}

void HttpServers::set_gives_parts(const std::string& url, bool gives) {
  MutexLock lock(mutex_);
  if (Server* server = remember(url)) server->gives_parts = gives;
}

void HttpServers::took(const std::string& url, ResponseTimes times) {
  MutexLock lock(mutex_);
  if (Server* server = remember(url))
    server->parts[server->num_parts++ % server->parts.size()] = times;
}

std::optional<ResponseTimes> HttpServers::slow_after(const std::string& url) const {
  MutexLock lock(mutex_);
  const Server server = known(url);
  if (server.num_parts < kLeastParts) return {};
  const std::span parts =
      std::span(server.parts).first(std::min(server.num_parts, server.parts.size()));
  return ResponseTimes{.head = slow(parts, &ResponseTimes::head),
                       .whole = slow(parts, &ResponseTimes::whole)};
}

}  // namespace millrace::io::detail
