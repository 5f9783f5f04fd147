// URL helpers: RFC 3986 as parsed by libcurl, never by hand.
#pragma once

#include <string>
#include <string_view>

namespace millrace::io::detail {

/// Throws: InvalidArgument unless `url` has a scheme and a host.
void check_url(const std::string& url);

/// True if scheme, host and port are the same. Throws: InvalidArgument if either is not a URL.
bool same_origin(const std::string& a, const std::string& b);

/// One text for all spellings of an http(s) url (RFC 3986, 6.2): scheme and host in lower case, no
/// default port, no fragment, no escapes of unreserved characters, a path without ".", ".." and
/// empty folders. Other text is returned unchanged.
std::string normal_url(const std::string& url);

/// "host:80" of "http://host/x": identifies a server. Empty if `url` is not a URL.
std::string url_host(const std::string& url);

/// `text` with all but RFC 3986's unreserved characters and those in `kept` encoded. S3 signs
/// exactly this encoding, with the slash kept in paths.
std::string percent_encoded(std::string_view text, std::string_view kept = "");
/// `text` with %XX decoded, and '+' as a space, as S3 encodes the names that it lists.
std::string percent_decoded(std::string_view text);
/// "bucket" and "a/b" of "s3://bucket/a/b".
struct BucketAndKey {
  std::string bucket;
  /// As it is: a key may contain any character, including '?' and '#'.
  std::string key;
};
/// Whether scheme://BUCKET/ is meant: all of a bucket.
enum class EmptyKey { kRefused, kAllowed };
/// Throws: InvalidArgument unless `url` is scheme://BUCKET/KEY.
BucketAndKey bucket_and_key(const std::string& url, EmptyKey empty = EmptyKey::kRefused);

/// A Location field resolved against `base`. Throws: InvalidArgument.
std::string resolve_url(const std::string& base, const std::string& location);

/// The path that a file: url names, with %XX decoded. Throws: InvalidArgument (another host, or a
/// NUL).
std::string file_url_path(const std::string& url);

}  // namespace millrace::io::detail
