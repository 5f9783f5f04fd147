// A file of this machine by its path, whatever that looks like: "s3://x" is in a folder "s3:".
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "io/byte_source.h"
#include "io/bytes.h"

namespace millrace::io {

/// Opens `path`, from its beginning. A FIFO or a device is read as a stream. Throws: NotFound,
/// PermissionDenied, Io.
std::unique_ptr<ByteSource> open_local_file(const std::string& path);

/// The whole of it, in one allocation; of a FIFO or a device what comes until its end. Throws: as
/// open_local_file(), Exhausted (more than `max_bytes`), Io (it changed while it was read), with
/// the path.
Bytes read_local_file(const std::string& path, std::size_t max_bytes);

}  // namespace millrace::io
