// Local files, whatever their paths look like: "a:b.jpg" is one, and so is "in/a.jpg".
//
// Threads: free functions, callable from any thread.
#pragma once

#include <string>

namespace millrace::tools {

/// The file:// url of `path`, which may be relative.
std::string local_url(const std::string& path);

}  // namespace millrace::tools
