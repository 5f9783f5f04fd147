// Makes the names in a folder durable.
#pragma once

#include <string>

namespace millrace::io::detail {

/// Calls fsync on `folder`; empty: the working directory. Throws: NotFound, Io.
void sync_folder(const std::string& folder);

}  // namespace millrace::io::detail
