// Where Google's own tools find credentials.
//
// Order: the file that GOOGLE_APPLICATION_CREDENTIALS names, else the one that `gcloud auth
// application-default login` leaves; the instance's metadata server. A service account's file is
// exchanged for a token by a JWT that its key signs, a user's file by its refresh token.
//
// Source: RFC 7523; "Using OAuth 2.0 for Server to Server Applications" (Google).
//
// Threads: every function may be called from any thread.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "io/detail/files/environment.h"
#include "io/detail/http/http_exchange.h"
#include "io/detail/http/renewed.h"

namespace millrace::io::detail {

/// What a service account's file says.
struct ServiceAccount {
  std::string email = {};
  std::string key_id = {};
  /// PEM.
  std::string private_key = {};
  std::string token_url = {};
};

/// The signed assertion of that account at `now`, in seconds since 1970. Throws: Corrupt (the key).
std::string service_account_jwt(const ServiceAccount& account, std::int64_t now);

/// A bearer token; none at all is an empty one, and requests are anonymous. Throws: NotFound, Io,
/// Corrupt, and Unsupported for kinds of credentials that are not known here.
Renewed<std::string>::Fetched find_google_token(HttpClient& client, const Environment& environment,
                                                const std::stop_token& stop);

}  // namespace millrace::io::detail
