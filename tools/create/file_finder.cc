#include "tools/create/file_finder.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "io/base/error.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostListings = 256;

bool is_wild(const std::string& component) {
  for (std::size_t i = 0; i < component.size(); ++i) {
    if (component[i] == '\\')
      ++i;
    else if (component[i] == '*' || component[i] == '?' || component[i] == '[')
      return true;
  }
  return false;
}

std::string unescaped(const std::string& component) {
  std::string out;
  for (std::size_t i = 0; i < component.size(); ++i) {
    if (component[i] == '\\' && i + 1 < component.size()) ++i;
    out += component[i];
  }
  return out;
}

}  // namespace

FileFinder::FileFinder(std::string root) : root_(std::move(root)) {}

std::string FileFinder::path_of(const std::string& relative) const {
  return (fs::path(root_) / relative).string();
}

const std::vector<std::string>& FileFinder::list(const std::string& folder) {
  if (const auto known = listings_.find(folder); known != listings_.end()) return known->second;
  if (listings_.size() >= kMostListings) listings_.clear();
  std::vector<std::string> names;
  std::error_code error;  // a folder that is not there has no match
  for (fs::directory_iterator entry(path_of(folder.empty() ? "." : folder), error), end;
       !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  const bool absent =
      error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !absent) throw_errno("list", path_of(folder), error.value());
  std::sort(names.begin(), names.end());
  return listings_[folder] = std::move(names);
}

std::vector<std::string> FileFinder::extend(const std::vector<std::string>& folders,
                                            const std::string& component) {
  std::vector<std::string> found;
  for (const std::string& folder : folders) {
    if (!is_wild(component)) {
      found.push_back(folder + unescaped(component));
      continue;
    }
    for (const std::string& name : list(folder))
      if (::fnmatch(component.c_str(), name.c_str(), FNM_PERIOD) == 0)
        found.push_back(folder + name);
  }
  return found;
}

std::string FileFinder::find(const std::string& pattern) {
  std::vector<std::string> found = {""};
  for (std::size_t at = 0; at <= pattern.size();) {
    const std::size_t slash = std::min(pattern.find('/', at), pattern.size());
    found = extend(found, pattern.substr(at, slash - at));
    if (slash < pattern.size())
      for (std::string& folder : found) folder += '/';
    at = slash + 1;
  }
  std::error_code ignored;
  std::erase_if(found,
                [&](const auto& name) { return !fs::is_regular_file(path_of(name), ignored); });
  if (found.empty()) throw Error(ErrorCode::kNotFound, "no file is " + path_of(unescaped(pattern)));
  if (found.size() > 1)
    throw Error(ErrorCode::kCorrupt, fmt::format("{} files match {}: {} and {}", found.size(),
                                                 pattern, found[0], found[1]));
  return found.front();
}

}  // namespace millrace::tools
