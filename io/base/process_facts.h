// What there is to say of this process when somebody asks later what it was: its command, the
// processor it ran on, and the memory it took.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace millrace {

/// The words that it was started with, the program's own among them; empty if they cannot be read.
std::vector<std::string> command_words();

/// "AMD EPYC 9B14", as /proc/cpuinfo below `root` says it; empty if it does not.
std::string processor_name(const std::filesystem::path& root = "/");

/// Bytes of this process that were in memory at most, so far; 0 if it cannot be read.
std::uint64_t peak_resident_memory();

}  // namespace millrace
