// HttpTarget: what a network url means to an HTTP client: the url to ask, and the header lines that
// are for its host alone.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/http_options.h"
#include "io/object_store_options.h"

namespace millrace::io::detail {

struct HttpTarget {
  /// As it may be printed.
  std::string name;
  std::string url;
  /// Made anew for each request, since a signature holds the time. Never sent to another host.
  std::function<std::vector<std::string>(const std::string& method)> secret_lines;
};

/// A store that speaks HTTP: what its urls mean.
struct HttpStore {
  const char* scheme;
  HttpTarget (*target)(const std::string& url, const HttpOptions& http,
                       const ObjectStoreOptions& stores);
};

/// All that are known here; one more is one more line. They live as long as the program.
std::span<const HttpStore> http_stores();

/// What `url` of that store means. Throws: InvalidArgument.
HttpTarget http_target(const HttpStore& store, const std::string& url, const HttpOptions& http,
                       const ObjectStoreOptions& stores);

}  // namespace millrace::io::detail
