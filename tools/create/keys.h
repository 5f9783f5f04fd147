// Keys: the names of samples.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace millrace::tools {

/// Makes a key from any text: folders are kept, dots in the name become underscores, because a key
/// ends at the first dot, and leading "/", "./" and "../" are removed.
std::string key_of_text(const std::string& text);
/// The same for a file's path without its suffix: "a/b.v2.jpg" → "a/b_v2".
std::string key_of_path(const std::string& path);

/// Throws: InvalidArgument if two of `count` samples have the same key, naming both, or a key
/// cannot be stored in a shard (it is not UTF-8, say), naming the sample.
void check_keys(std::uint64_t count, const std::function<std::string(std::uint64_t index)>& key,
                const std::function<std::string(std::uint64_t index)>& name);

}  // namespace millrace::tools
