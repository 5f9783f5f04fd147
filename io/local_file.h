// A file of this machine by its path, whatever that looks like: "s3://x" is in a folder "s3:".
//
// Threads: free functions, callable from any thread.
#pragma once

#include <memory>
#include <string>

#include "io/byte_source.h"

namespace millrace::io {

/// Opens `path`, from its beginning. A FIFO or a device is read as a stream. Throws: NotFound,
/// PermissionDenied, Io.
std::unique_ptr<ByteSource> open_local_file(const std::string& path);

}  // namespace millrace::io
