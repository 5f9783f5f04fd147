// FolderFence: keeps the files that a table or list names in its folder, also when symbolic links
// lead out of it: whoever packs and publishes a table from elsewhere must not publish what else
// can be read on the machine.
//
// Threads: one at a time.
#pragma once

#include <string>

namespace millrace::tools {

/// Whether files outside the folder are accepted.
enum class Outside { kRefused, kAllowed };

class FolderFence {
 public:
  FolderFence(const std::string& folder, Outside outside);

  /// Throws: InvalidArgument if the file, which exists, is outside.
  void check(const std::string& file);

 private:
  const std::string& real_folder(const std::string& folder);

  Outside outside_;
  std::string root_;         ///< without links
  std::string last_folder_;  ///< most files lie in the folder of the one before
  std::string last_real_;
};

}  // namespace millrace::tools
