// same_file: whether a path still names an open file.
#pragma once

#include <string>

namespace millrace {

/// Returns false if `path` names a different file than `fd`, or none: between an open and a lock,
/// the previous holder of the lock may have renamed or deleted it.
bool same_file(int fd, const std::string& path);

}  // namespace millrace
