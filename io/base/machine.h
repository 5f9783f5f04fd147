// How much of the machine this process may use: cores, threads and memory; and where it may keep
// what can be made again.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

/// More threads than this for one purpose are a mistake, and may exhaust the machine.
inline constexpr int kMaxThreads = 1024;

/// The core numbers of the process's affinity mask, ascending; {0} if it cannot be read.
std::vector<int> allowed_cores();

/// The number of allowed cores, or the cgroup CPU quota rounded up if that is smaller (a
/// container's share of a large machine). At least 1.
int usable_cores();

/// The smallest CPU quota, in cores, of the process's cgroups and their ancestors, for cgroup v1
/// (cpu.cfs_quota_us) and v2 (cpu.max); nullopt if there is no limit. `root` is the folder that
/// contains `proc` and `sys`.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

/// Bytes of this process that are in memory now; 0 if it cannot be read.
std::uint64_t resident_memory();

/// The machine's memory in bytes, or the cgroup's limit if that is smaller.
std::uint64_t usable_memory();

/// The smallest memory limit in bytes, as cpu_quota() (memory.limit_in_bytes, memory.max).
std::optional<std::uint64_t> memory_limit(const std::filesystem::path& root = "/");

/// $XDG_CACHE_HOME/millrace/NAME, or below ~/.cache; empty if neither variable is set.
std::string cache_folder(const std::string& name);

}  // namespace millrace
