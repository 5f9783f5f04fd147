#include "io/base/process_facts.h"

#include <cstdlib>
#include <fstream>

namespace millrace {
namespace {

/// What follows "NAME:" in a file of /proc; empty if nothing does.
std::string proc_value(const std::filesystem::path& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t value = line.find_first_not_of(" \t:", name.size());
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return {};
}

}  // namespace

std::vector<std::string> command_words() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::string processor_name(const std::filesystem::path& root) {
  return proc_value(root / "proc/cpuinfo", "model name");
}

// Not getrusage(), whose peak is that of the process before exec(), too.
std::uint64_t peak_resident_memory() {
  const std::string kilobytes = proc_value("/proc/self/status", "VmHWM");
  return std::strtoull(kilobytes.c_str(), nullptr, 10) * 1024;
}

}  // namespace millrace
