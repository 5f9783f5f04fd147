// The path on this machine's disk that a url names.
//
// Threads: a free function, callable from any thread.
#pragma once

#include <optional>
#include <string>

namespace millrace::io {

/// A path as it is, a file: url's path with %XX decoded; nothing for standard input, pipes and urls of
/// stores. Opens nothing. Throws: InvalidArgument for a file: url of another machine.
std::optional<std::string> local_path(const std::string& url);

}  // namespace millrace::io
