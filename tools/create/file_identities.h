// Which files a source reads, as a hash, so that a later run can tell whether they changed.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "io/base/hash.h"

namespace millrace::tools {

/// Adds path, size and modification time of a file to `into`. Throws: NotFound, Io.
void identify_file(const std::string& path, Sha256& into);

/// The same of `count` files, in their order. Several
/// threads ask for them, which call `path` at once. Throws: NotFound, Io, of the first file that
/// has a fault; as `path`.
void identify_files(std::uint64_t count,
                    const std::function<std::string(std::uint64_t index)>& path, Sha256& into);

}  // namespace millrace::tools
