// Opens a local file as a ByteSource; used by UrlOpener.
#pragma once

#include <memory>
#include <string>

#include "io/byte_source.h"
#include "io/detail/files/stream_patience.h"
#include "io/opener.h"

namespace millrace::io::detail {

/// A FIFO or a device is read as a stream. Throws: NotFound, Io, Truncated (an offset past the
/// end).
std::unique_ptr<ByteSource> open_file(const std::string& path, const OpenOptions& options,
                                      const StreamPatience& patience = {});

}  // namespace millrace::io::detail
