// What io needs to know of urls: RFC 3986 by libcurl's parser, never by hand.
#pragma once

#include <string>
#include <string_view>

namespace millrace::io::detail {

/// "http" of "http://x", "file" of "file:x", "pipe" of "pipe:x", in lower case; empty for a path.
/// A path may hold a colon: only `name://`, `file:` and `pipe:` make a scheme.
std::string url_scheme(std::string_view url);

/// Throws: InvalidArgument for what is no url with a scheme and a host.
void check_url(const std::string& url);

/// True when scheme, host and port are the same. Throws: InvalidArgument for what is no url.
bool same_origin(const std::string& a, const std::string& b);

/// "host:80" of "http://host/x": what tells one server from another. Empty for what is no url.
std::string url_host(const std::string& url);

/// The url that a Location field means, seen from `base`. Throws: InvalidArgument.
std::string resolve_url(const std::string& base, const std::string& location);

/// The path that a file: url names, %XX decoded. Throws: InvalidArgument (another machine's file).
std::string file_url_path(const std::string& url);

}  // namespace millrace::io::detail
