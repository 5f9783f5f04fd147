#include "io/base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace millrace {
namespace {

namespace fs = std::filesystem;

// "max 100000", "150000 100000": quota and period in microseconds.
std::optional<double> quota_of_version_2(const fs::path& folder) {
  std::ifstream file(folder / "cpu.max");
  double microseconds = 0;
  double period = 0;
  if (!(file >> microseconds >> period) || period <= 0) return {};
  return microseconds / period;
}

std::optional<double> quota_of_version_1(const fs::path& folder) {
  std::ifstream quota(folder / "cpu.cfs_quota_us");
  std::ifstream period(folder / "cpu.cfs_period_us");
  double microseconds = 0;
  double of = 0;
  if (!(quota >> microseconds) || !(period >> of) || microseconds <= 0 || of <= 0) return {};
  return microseconds / of;
}

/// A number in a file of its own; nullopt for "max".
std::optional<std::uint64_t> limit_of(const fs::path& path) {
  std::ifstream file(path);
  std::string text;
  std::uint64_t bytes = 0;
  file >> text;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return bytes;
}

std::optional<std::uint64_t> limit_of_version_2(const fs::path& folder) {
  return limit_of(folder / "memory.max");
}

std::optional<std::uint64_t> limit_of_version_1(const fs::path& folder) {
  return limit_of(folder / "memory.limit_in_bytes");
}

bool names(const std::string& controllers, const std::string& wanted) {
  std::istringstream all(controllers);
  for (std::string name; std::getline(all, name, ',');)
    if (name == wanted) return true;
  return false;
}

// A line of /proc/self/cgroup: "1:cpu,cpuacct:/path", or "0::/path" for version 2.
struct Group {
  std::string controllers;
  fs::path path;
};

std::optional<Group> parse_group(const std::string& line) {
  const std::size_t first = line.find(':');
  const std::size_t second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return {};
  return Group{line.substr(first + 1, second - first - 1), line.substr(second + 1)};
}

/// What a cgroup's folder says of a controller, in either version.
template <typename Value>
struct Limit {
  const char* controller;
  std::optional<Value> (*version_1)(const fs::path& folder);
  std::optional<Value> (*version_2)(const fs::path& folder);
};

/// Of the process's cgroups and their ancestors.
template <typename Value>
std::optional<Value> smallest(const fs::path& root, const Limit<Value>& limit) {
  std::optional<Value> kept;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::optional<Group> group = parse_group(line);
    if (!group || !(group->controllers.empty() || names(group->controllers, limit.controller)))
      continue;
    const bool version_2 = group->controllers.empty();
    const fs::path mounted = root / "sys/fs/cgroup" / (version_2 ? "" : limit.controller);
    // In a container the path may be the host's, while the mount shows the container's own cgroup:
    // so all ancestors up to the mount's root are tried.
    for (fs::path path = group->path.relative_path();; path = path.parent_path()) {
      const auto own = (version_2 ? limit.version_2 : limit.version_1)(mounted / path);
      if (own && (!kept || *own < *kept)) kept = own;
      if (path.empty()) break;
    }
  }
  return kept;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  return smallest<double>(root, {"cpu", quota_of_version_1, quota_of_version_2});
}

std::optional<std::uint64_t> memory_limit(const fs::path& root) {
  return smallest<std::uint64_t>(root, {"memory", limit_of_version_1, limit_of_version_2});
}

std::uint64_t usable_memory() {
  const auto all = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(all, memory_limit().value_or(all));
}

// The file's second number: pages.
std::uint64_t resident_memory() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t mapped = 0;
  std::uint64_t resident = 0;
  if (!(file >> mapped >> resident)) return 0;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) cores.push_back(0);
  return cores;
}

int usable_cores() {
  const auto allowed = static_cast<double>(allowed_cores().size());
  const double paid = std::ceil(cpu_quota().value_or(allowed));
  return std::max(1, static_cast<int>(std::min(allowed, paid)));
}

std::string cache_folder(const std::string& name) {
  const auto variable = [](const char* word) {
    const char* const value = std::getenv(word);  // NOLINT(concurrency-mt-unsafe)
    return std::string(value == nullptr ? "" : value);
  };
  const std::string cache = variable("XDG_CACHE_HOME");
  if (cache.starts_with("/")) return cache + "/millrace/" + name;
  const std::string home = variable("HOME");
  return home.starts_with("/") ? home + "/.cache/millrace/" + name : "";
}

}  // namespace millrace
