// Checks whether results can be written to their destination, before any work is done and without
// side effects.
#pragma once

#include <memory>
#include <string>

#include "io/byte_sink.h"

namespace millrace::tools {

/// Throws: InvalidArgument if `path` is a URL, which would become a local folder called
/// "gs:".
void check_local_output(const std::string& path);

/// Throws: Io unless `folder` is a writable folder or can be created, which requires its nearest
/// existing ancestor to be one.
void check_writable_folder(const std::string& folder);

/// The check for a file that will be written. Throws: InvalidArgument if it exists and may not be
/// replaced; as check_local_output(), and as check_writable_folder() of its folder.
void check_output_file(const std::string& path, io::Replace replace);

/// Opens the file and creates missing folders above it. Throws: as io::open_file_sink().
std::unique_ptr<io::ByteSink> open_output_file(const std::string& path, io::Replace replace);

/// Creates the missing folders of `path`. Throws: Io.
void make_parent_folders(const std::string& path);

}  // namespace millrace::tools
