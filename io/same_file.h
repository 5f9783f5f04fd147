// same_file: what tells files that were named twice: by links, by "./a" and "a", by other paths.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace millrace::io {

/// One text for all names of a regular file on this machine: its device and number there, size and
/// time; of a folder its device and number. Of what is neither, its path without "." and "..", or
/// its url as detail::normal_url() has it. Looks at the path.
std::string file_identity(const std::string& url);

/// The places of the first of `identities` that was there before, and of that earlier one; nullopt
/// if all differ.
std::optional<std::pair<std::size_t, std::size_t>> find_repeated(
    std::span<const std::string> identities);

/// The same of files and folders by their file_identity().
std::optional<std::pair<std::size_t, std::size_t>> find_repeated_files(
    std::span<const std::string> places);

}  // namespace millrace::io
