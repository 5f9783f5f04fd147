// url_query: where a url's query begins, if it can have one.
//
// Threads: a free function, callable from any thread.
#pragma once

#include <cstddef>
#include <string>

namespace millrace::io {

/// Where the query or the fragment of `url` begins; npos if it has none. In the key of a store's
/// object (s3, gs, hf), and in a path, '?' and '#' are characters as others are.
std::size_t query_begin(const std::string& url);

}  // namespace millrace::io
