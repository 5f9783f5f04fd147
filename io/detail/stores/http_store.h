// HttpStore: a store that speaks HTTP: what its urls mean, how its requests are signed, how it
// lists and takes objects.
//
// One more store is one file with a class derived from this, and one line in kKinds
// (http_store.cc). target() alone makes urls readable, and writable by one PUT: retries, resuming,
// skipping and redirects come with it.
//
// Threads: every member may be called from any thread.
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/detail/http/http_exchange.h"
#include "io/detail/http/signer.h"
#include "io/http_options.h"
#include "io/object_store_options.h"
#include "io/opener.h"

namespace millrace::io::detail {

class HttpStore {
 public:
  virtual ~HttpStore() = default;

  /// What to request for the object `url`. Throws: InvalidArgument for a malformed url.
  virtual HttpTarget target(const std::string& url) = 0;

  virtual bool can_list() const { return false; }
  /// As Opener::list(), in any order. Called only if can_list().
  virtual std::vector<ListedObject> list(HttpClient& client, const std::string& prefix,
                                         const ListOptions& options);

  /// As UrlOpener::open_sink(). Default: one PUT of what was spooled to a temporary file
  /// (io/detail/stores/upload_sink.h).
  virtual std::unique_ptr<ByteSink> create(std::shared_ptr<HttpClient> client,
                                           const std::string& url, const FileSinkOptions& options,
                                           const std::stop_token& stop);

  /// As Opener::remove(). Default: nothing can be removed.
  virtual void remove(HttpClient& client, const std::string& url, const std::stop_token& stop);
};

struct HttpStoreKind {
  const char* scheme;
  std::unique_ptr<HttpStore> (*make)(const HttpOptions& http, const ObjectStoreOptions& stores);
};

/// All built-in stores. Lifetime: static.
std::span<const HttpStoreKind> http_store_kinds();

std::unique_ptr<HttpStore> make_s3_store(const HttpOptions& http, const ObjectStoreOptions& stores);
std::unique_ptr<HttpStore> make_gcs_store(const HttpOptions& http,
                                          const ObjectStoreOptions& stores);
std::unique_ptr<HttpStore> make_hub_store(const HttpOptions& http,
                                          const ObjectStoreOptions& stores);

/// Adds `more` to `listed`. Throws: Exhausted if they are more than `options.most` then.
void add_listed(std::vector<ListedObject>& listed, std::vector<ListedObject> more,
                const std::string& prefix, const ListOptions& options);

}  // namespace millrace::io::detail
