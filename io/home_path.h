// home_path: paths that begin with a home folder, as users write them in quotes or in files, where
// no shell replaces it.
//
//   with_home("~/sets/train-%06d.tar")     // "/home/ada/sets/train-%06d.tar"
//
// Threads: a free function; with ~USER one call at a time.
#pragma once

#include <functional>
#include <string>

namespace millrace::io {

/// `path` with `~` or `~USER` at its beginning replaced by that home folder, as a shell does, which
/// leaves it where there is no such user. A file of that very name stays as it is. `own_home` gives
/// the folder of `~`; without one, $HOME. Throws: InvalidArgument ($HOME is not set); as
/// `own_home`.
std::string with_home(const std::string& path, const std::function<std::string()>& own_home = {});

}  // namespace millrace::io
