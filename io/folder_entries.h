// What is in a folder of this machine.
//
//   for (const FolderEntry& entry : entries_in("photos"))
//     if (!entry.is_folder) take("photos/" + entry.name);
//
// Threads: free functions, callable from any thread.
#pragma once

#include <string>
#include <vector>

namespace millrace::io {

struct FolderEntry {
  std::string name;
  bool is_folder = false;  ///< a link is what it leads to; one that leads nowhere is a file
};

/// All that is in `folder` ("": the current one), without "." and "..", in no order. Throws:
/// NotFound, and as throw_unlisted().
std::vector<FolderEntry> entries_in(const std::string& folder);

/// Says which folder could not be listed, that what it holds would be missing, and what to do:
/// strict, since nothing else would tell of it. Throws: NotFound, PermissionDenied, Io.
[[noreturn]] void throw_unlisted(const std::string& folder, int error_number);

}  // namespace millrace::io
