// What a command is given that is named twice, by whatever name: each would count double.
//
// Threads: any.
#pragma once

#include <span>
#include <string>

namespace millrace::tools {

/// Throws: InvalidArgument if two of `places`, files or folders, are one.
void refuse_named_twice(std::span<const std::string> places);

}  // namespace millrace::tools
