// HttpTarget: what a network url means to an HTTP client: the url to request, and the header lines
// that only its host may see.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/http_options.h"
#include "io/object_store_options.h"

namespace millrace::io::detail {

struct HttpTarget {
  /// The printable url.
  std::string name;
  std::string url;
  /// Built anew for each request, since a signature contains the time. Never sent to another host.
  std::function<std::vector<std::string>(const std::string& method)> secret_lines;
};

/// A store that speaks HTTP, and the mapping of its urls.
struct HttpStore {
  const char* scheme;
  HttpTarget (*target)(const std::string& url, const HttpOptions& http,
                       const ObjectStoreOptions& stores);
};

/// All built-in stores; a new one is one more line. Lifetime: static.
std::span<const HttpStore> http_stores();

/// What `url` of that store means. Throws: InvalidArgument for a malformed url.
HttpTarget http_target(const HttpStore& store, const std::string& url, const HttpOptions& http,
                       const ObjectStoreOptions& stores);

}  // namespace millrace::io::detail
