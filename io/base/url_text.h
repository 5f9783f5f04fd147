// The text of a url, looked at without the network: its scheme, where its query begins, and how it
// is printed.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace::io {

/// "http" of "http://x", "file" of "file:x", "pipe" of "pipe:x", in lower case; empty for a path. A
/// path may contain a colon: only `name://`, `file:` and `pipe:` make a scheme.
std::string url_scheme(std::string_view url);
/// True for any `name://` except file:// and pipe:. Such objects, user-defined stores included, are
/// assumed to be read over the network.
bool is_network_url(const std::string& url);
/// True for "-" and pipe: urls: they can be read only once from start to end, and no index or
/// manifest can accompany them.
bool is_stream_url(const std::string& url);
/// Where the query or the fragment of `url` begins; npos if it has none. In the key of a store's
/// object (s3, gs, hf), and in a path, '?' and '#' are characters as others are.
std::size_t query_begin(const std::string& url);
/// `url` without user, password, query string and fragment: safe to print and log. Paths and pipe:
/// commands are returned unchanged, and so is what is printable already.
std::string printable_url(const std::string& url);

}  // namespace millrace::io
