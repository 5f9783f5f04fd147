// FileFinder: finds the one file below a folder that matches a pattern with wild cards.
//
//   FileFinder finder("/data/pe");
//   finder.find("1.2.3/4.5.6/*7.8.9.jpg");   // "1.2.3/4.5.6/217#7.8.9.jpg"
//
// * ? [...] match within one name (fnmatch), never a leading dot; a backslash escapes a character.
// Listings of recent folders are cached. Threads: one at a time.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

namespace millrace::tools {

class FileFinder {
 public:
  explicit FileFinder(std::string root);

  /// The match, relative to the root unless the pattern is absolute. Throws: NotFound (no match),
  /// Corrupt (several matches; it names two), Io.
  std::string find(const std::string& pattern);

 private:
  struct Listing {
    std::vector<std::string> names;      ///< sorted
    std::vector<std::string> backwards;  ///< the names reversed; sorted
  };
  std::string path_of(const std::string& relative) const;
  const Listing& list(const std::string& folder);
  std::vector<std::string> match(const std::string& folder, const std::string& pattern);

  std::string root_;
  std::unordered_map<std::string, Listing> listings_;
};

}  // namespace millrace::tools
