// Environment: the variables and small files that the stores' own tools read.
//
// Threads: pure functions, callable from any thread.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::io::detail {

/// Looks up a variable; empty: there are none.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// This process's variables.
std::optional<std::string> process_variable(const std::string& name);
/// The value of the first of `names` that is set and not empty; else `otherwise`.
std::string variable(const Environment& environment, std::initializer_list<const char*> names,
                     std::string otherwise = "");
/// A file in the user's home; empty without a home.
std::string in_home(const Environment& environment, std::string_view path);
/// A small file's content (at most 1 MiB); nullopt if there is none. Throws: Io, Exhausted.
std::optional<std::string> read_small_file(const std::string& path);
/// The same without white space at its ends. Throws: NotFound.
std::string read_token_file(const std::string& path);

}  // namespace millrace::io::detail
