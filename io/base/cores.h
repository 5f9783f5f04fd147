// The cores that this process may run on, and how many cores' worth of work it can do at once.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace millrace {

/// Their numbers, at least one, in order.
std::vector<int> allowed_cores();

/// How many these are, or, where the control groups' quota pays for fewer, that quota rounded up: a
/// container's share of a large machine. At least 1.
int usable_cores();

/// The smallest CPU quota, in cores, of the process's control groups and those above them, of
/// Linux's first or second version (cpu.cfs_quota_us, cpu.max); none where there is no limit.
/// `root` is where proc and sys are looked for.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace millrace
