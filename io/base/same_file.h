// same_file: whether a path still names the file that is open.
#pragma once

#include <string>

namespace millrace {

/// False when `path` names another file than `fd` has open, or none: between an open and a lock,
/// who held the lock may have renamed or deleted it.
bool same_file(int fd, const std::string& path);

}  // namespace millrace
