// ByteSources without size and random access: standard input, a FIFO, the output of a shell
// command. A read that gets nothing throws Io when StreamPatience says so.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "io/byte_source.h"
#include "io/detail/files/stream_patience.h"
#include "io/detail/files/unique_fd.h"
#include "io/opener.h"

namespace millrace::io::detail {

/// Reads the descriptor of a pipe, FIFO or device; the first `options.offset` bytes are dropped.
std::unique_ptr<ByteSource> open_stream(UniqueFd fd, const std::string& name,
                                        const OpenOptions& options, const StreamPatience& patience);

/// Reads standard input from its current position; the first `options.offset` bytes are dropped.
/// Throws: Io.
std::unique_ptr<ByteSource> open_stdin(const OpenOptions& options, const StreamPatience& patience);

/// Runs `sh -c COMMAND`, for a url "pipe:COMMAND", in its own process group. read() returns the end
/// only once the command has exited with status 0, and throws Io for any other status. Destroying
/// the source earlier kills the group. Throws: Io.
std::unique_ptr<ByteSource> open_pipe(const std::string& url, const OpenOptions& options,
                                      const StreamPatience& patience);

}  // namespace millrace::io::detail
