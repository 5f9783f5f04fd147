// Checks whether results can be written to their destination, before any work is done and without
// side effects.
#pragma once

#include <memory>
#include <string>

#include "io/byte_sink.h"
#include "io/opener.h"

namespace millrace::tools {

/// Throws: InvalidArgument if `path` is a URL, which would become a local folder called
/// "gs:".
void check_local_output(const std::string& path);

/// The check for what may also be written to a store: a plain path, or a url that an opener may
/// write. Throws: as check_local_output() for any other url.
void check_output(const std::string& path);

/// Throws: Io unless `folder` is a writable folder or can be created, which requires its nearest
/// existing ancestor to be one.
void check_writable_folder(const std::string& folder);
/// The same for the folder of `path`, unless that is a url: whether a store can be written to shows
/// when the first object is opened.
void check_folder_of(const std::string& path);

/// The check for a file that will be written. Throws: InvalidArgument if it exists and may not be
/// replaced; as check_output(), and as check_folder_of().
void check_output_file(const std::string& path, io::Replace replace);

/// Opens the file, or the url by `opener`, and creates missing folders above it. Throws: as
/// io::open_file_sink() and io::Opener::open_sink().
std::unique_ptr<io::ByteSink> open_output_file(const io::Opener& opener, const std::string& path,
                                               io::Replace replace);

/// Whether there is a file at `path`, or an object of a store that lists its objects. Throws: as
/// io::Opener::list().
bool output_exists(const io::Opener& opener, const std::string& path);

/// Creates the missing folders of `path`; a url has none. Throws: Io.
void make_parent_folders(const std::string& path);

}  // namespace millrace::tools
