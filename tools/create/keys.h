// Keys: what samples are called.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace millrace::tools {

/// A key made of any text: its folders stay, dots in the name behind them become underscores,
/// because a key ends at the first; "/", "./" and "../" in front go.
std::string key_of_text(const std::string& text);
/// The same of a file's path without its suffix: "a/b.v2.jpg" → "a/b_v2".
std::string key_of_path(const std::string& path);

/// Throws: InvalidArgument when two of `count` samples have one key, naming both, or no shard can
/// hold one (it is not UTF-8, say), naming the sample.
void check_keys(std::uint64_t count, const std::function<std::string(std::uint64_t index)>& key,
                const std::function<std::string(std::uint64_t index)>& name);

}  // namespace millrace::tools
