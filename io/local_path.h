// The path on this machine's disk that a url names, and what is in a folder of this machine.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace millrace::io {

/// A path unchanged, or a file: url's path with %XX decoded; nullopt for standard input, pipes and
/// stores. Opens nothing. Throws: InvalidArgument for a file: url that names another host.
std::optional<std::string> local_path(const std::string& url);
/// True for what can be read only once, from start to end: standard input, pipes, and paths of
/// FIFOs and devices. Looks at the path. Throws: as local_path().
bool is_read_once(const std::string& url);
/// False for what is gone once it has been read: standard input, FIFOs and devices. A pipe: command
/// is run again. Throws: as local_path().
bool can_reopen(const std::string& url);
/// The names of all that is in `folder` ("": the current one), in no order; none where there is no
/// such folder. Throws: Io or PermissionDenied where it cannot be listed: that is not an empty one.
std::vector<std::string> names_in(const std::string& folder);

}  // namespace millrace::io
