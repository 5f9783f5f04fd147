// Files of which a source's samples are read: each once.
//
// Threads: a free function, callable from any thread.
#pragma once

#include <span>
#include <string>

namespace millrace::tools {

/// Throws: InvalidArgument if two of `files` are one file, by its names or by links: its samples
/// would be in the set twice.
void refuse_repeated_files(std::span<const std::string> files);

}  // namespace millrace::tools
