// Whether results can be written where they are to go: asked before any work is done, without
// leaving a trace.
#pragma once

#include <string>

namespace millrace::tools {

/// Throws: Io unless `folder` is a folder that may be written to, or can be made: the nearest one
/// above it that exists must be.
void check_writable_folder(const std::string& folder);

/// Makes the folder of `path`, and those above it, where they are missing. Throws: Io.
void make_parent_folders(const std::string& path);

}  // namespace millrace::tools
