// Makes the names in a folder durable.
#pragma once

#include <string>

namespace millrace::io::detail {

/// fsync of `folder`; empty is the working folder. Throws: Io.
void sync_folder(const std::string& folder);

}  // namespace millrace::io::detail
