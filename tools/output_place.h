// Whether results can be written where they are to go: asked before any work is done, without
// leaving a trace.
#pragma once

#include <memory>
#include <string>

#include "io/byte_sink.h"

namespace millrace::tools {

/// Throws: InvalidArgument unless `path` names a place in the file system as it stands: a url would
/// become a local folder called "gs:".
void check_local_output(const std::string& path);

/// Throws: Io unless `folder` is a folder that may be written to, or can be made: the nearest one
/// above it that exists must be.
void check_writable_folder(const std::string& folder);

/// For a file that will be written. Throws: InvalidArgument when there is one already that may not
/// be replaced; as check_local_output(), and check_writable_folder() of its folder.
void check_output_file(const std::string& path, io::Replace replace);

/// Opens the file, and makes the folders above it where they are missing. Throws: Io.
std::unique_ptr<io::ByteSink> open_output_file(const std::string& path, io::Replace replace);

/// Makes the folder of `path`, and those above it, where they are missing. Throws: Io.
void make_parent_folders(const std::string& path);

}  // namespace millrace::tools
