#include "tools/create/file_finder.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/folder_entries.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostListings = 256;

/// A pattern for one name: the literal parts before its first wild card and after its last one.
struct PathPart {
  bool wild = false;
  std::string head;
  std::string tail;
};

PathPart parse_component(const std::string& text) {
  PathPart parsed;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '\\' && i + 1 < text.size();
    if (!escaped && std::string_view("*?[]").find(text[i]) != std::string_view::npos) {
      parsed.wild = true;
      parsed.tail.clear();
      continue;
    }
    if (escaped) ++i;
    (parsed.wild ? parsed.tail : parsed.head) += text[i];
  }
  return parsed;
}

std::string reversed(const std::string& text) { return {text.rbegin(), text.rend()}; }

/// The names in `sorted` that begin with `start`.
std::span<const std::string> beginning_with(const std::vector<std::string>& sorted,
                                            const std::string& start) {
  const auto first = std::lower_bound(sorted.begin(), sorted.end(), start);
  const auto last = std::find_if_not(
      first, sorted.end(), [&](const std::string& name) { return name.starts_with(start); });
  return {first, last};
}

bool is_absent(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

/// What may not be looked at may be a second match: that is not taken for none.
bool is_file(const fs::path& path) {
  std::error_code error;
  const bool is = fs::is_regular_file(path, error);
  if (error && !is_absent(error)) io::throw_unlisted(path.parent_path().string(), error.value());
  return is;
}

}  // namespace

FileFinder::FileFinder(std::string root) : root_(std::move(root)) {}

std::string FileFinder::path_of(const std::string& relative) const {
  return (fs::path(root_) / relative).string();
}

const FileFinder::Listing& FileFinder::list(const std::string& folder) {
  if (const auto known = listings_.find(folder); known != listings_.end()) return known->second;
  if (listings_.size() >= kMostListings) listings_.clear();
  Listing& listing = listings_[folder];
  std::error_code error;  // a missing folder has no match
  for (fs::directory_iterator entry(path_of(folder.empty() ? "." : folder), error), end;
       !error && entry != end; entry.increment(error)) {
    listing.names.push_back(entry->path().filename().string());
    listing.backwards.push_back(reversed(listing.names.back()));
  }
  if (error && !is_absent(error)) io::throw_unlisted(path_of(folder), error.value());
  std::sort(listing.names.begin(), listing.names.end());
  std::sort(listing.backwards.begin(), listing.backwards.end());
  return listing;
}

// Only names with the pattern's literal beginning or end, whichever is longer, are matched: a
// folder may contain millions.
std::vector<std::string> FileFinder::match(const std::string& folder, const std::string& pattern) {
  const PathPart parts = parse_component(pattern);
  if (!parts.wild) return {folder + parts.head};
  const Listing& listing = list(folder);
  const bool by_head = parts.head.size() >= parts.tail.size();
  const std::string backwards = reversed(parts.tail);
  std::vector<std::string> found;
  for (const std::string& candidate : by_head ? beginning_with(listing.names, parts.head)
                                              : beginning_with(listing.backwards, backwards)) {
    const std::string name = by_head ? candidate : reversed(candidate);
    if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0) found.push_back(folder + name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string FileFinder::find(const std::string& pattern) {
  std::vector<std::string> found = {""};
  for (std::size_t at = 0; at <= pattern.size();) {
    const std::size_t slash = std::min(pattern.find('/', at), pattern.size());
    std::vector<std::string> deeper;
    for (const std::string& folder : found)
      for (std::string& name : match(folder, pattern.substr(at, slash - at)))
        deeper.push_back(std::move(name) + (slash < pattern.size() ? "/" : ""));
    found = std::move(deeper);
    at = slash + 1;
  }
  std::erase_if(found, [&](const auto& name) { return !is_file(path_of(name)); });
  if (found.empty()) throw Error(ErrorCode::kNotFound, "no file is " + path_of(pattern));
  if (found.size() > 1)
    throw Error(ErrorCode::kCorrupt, fmt::format("{} files match {}: {} and {}", found.size(),
                                                 pattern, found[0], found[1]));
  return found.front();
}

}  // namespace millrace::tools
