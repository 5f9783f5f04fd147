// Local files, whatever their paths look like: "a:b.jpg" is one, and so is "in/a.jpg".
//
// Threads: free functions, callable from any thread.
#pragma once

#include <span>
#include <string>

namespace millrace::tools {

/// The file:// url of `path`, which may be relative.
std::string local_url(const std::string& path);

/// Throws: InvalidArgument if two of `files` are one file, by its names or by links: its samples
/// would be in the set twice.
void refuse_repeated_files(std::span<const std::string> files);

}  // namespace millrace::tools
